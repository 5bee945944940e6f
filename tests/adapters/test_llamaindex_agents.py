"""kb_tool in LlamaIndex's agents, with its own mock model, no key, no socket."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.workflow import Context, JsonSerializer

from kb_core import LocalKB
from kb_core.embedders import HashingEmbedder
from kb_llamaindex import kb_tool

try:
    from llama_index.core.base.llms.types import ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM
except ImportError:
    pytest.skip("this llama-index-core has no mock model that calls tools", allow_module_level=True)

QUERY = "how many days do I have to return something for a refund?"

pytestmark = [
    pytest.mark.usefixtures("offline"),
    # LlamaIndex's workflows look at every attribute of an agent, and so at those that pydantic has deprecated.
    pytest.mark.filterwarnings("ignore:.*attribute.*deprecated:pydantic.warnings.PydanticDeprecationWarning"),
]


def calling(tool: FunctionTool, *calls: dict[str, Any]) -> MockFunctionCallingLLM:
    """Make a model that calls the tool with each of these arguments in turn, and then answers with what it read."""
    turns = iter(calls)

    def respond(messages: Sequence[ChatMessage], **_kwargs: Any) -> ChatMessage:
        arguments = next(turns, None)
        if arguments is None:
            return ChatMessage(role="assistant", content=f"I read: {messages[-1].content}")
        call = ToolCallBlock(tool_call_id="call-1", tool_name=tool.metadata.get_name(), tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


async def run(agent: FunctionAgent, context: Context | None = None) -> tuple[AgentOutput, list[ToolCallResult]]:
    handler = agent.run(QUERY, ctx=context)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    return await handler, results


class TestAgent:
    @pytest.mark.parametrize("streaming", [True, False])
    async def test_an_agent_searches_and_reads_what_the_tool_says(self, kb: LocalKB, streaming: bool) -> None:
        tool = kb_tool(kb)
        agent = FunctionAgent(
            tools=[tool], llm=calling(tool, {"query": QUERY, "top_k": 2}), streaming=streaming, system_prompt="Answer."
        )
        answer, (result,) = await run(agent)
        text = kb.as_tool().call(QUERY, 2)
        assert result.tool_output.content == text
        assert str(answer) == f"I read: {text}"
        assert [hit["chunk_id"] for hit in result.tool_output.raw_output] == [
            hit.chunk.id for hit in kb.search(QUERY, 2)
        ]

    async def test_a_result_can_be_kept_with_its_workflow(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        _, (result,) = await run(FunctionAgent(tools=[tool], llm=calling(tool, {"query": QUERY})))
        kept = JsonSerializer().deserialize(JsonSerializer().serialize(result))
        assert kept.tool_output.raw_output == result.tool_output.raw_output
        json.dumps(result.model_dump(mode="json"), allow_nan=False)

    async def test_an_expected_error_does_not_end_the_run(self, failing_kb: LocalKB) -> None:
        tool = kb_tool(failing_kb)
        answer, (result,) = await run(FunctionAgent(tools=[tool], llm=calling(tool, {"query": QUERY})))
        assert result.tool_output.is_error
        assert str(answer) == f"I read: {result.tool_output.content}"

    async def test_wrong_arguments_do_not_end_the_run(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        model = calling(tool, {"top_k": "many"}, {"query": QUERY, "top_k": 1})
        _, (refused, found) = await run(FunctionAgent(tools=[tool], llm=model))
        assert (refused.tool_output.is_error, found.tool_output.is_error) == (True, False)
        assert refused.tool_output.content == f"{tool.metadata.name} needs a query: a string"

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_the_filter_comes_from_the_context_of_the_run(self, kb: LocalKB, is_async: bool) -> None:
        async def of_the_run(context: Context) -> dict[str, Any]:
            return {"lang": await context.store.get("lang")}

        where: Callable[[Context], Any] = of_the_run if is_async else lambda _context: {"lang": "de"}
        tool = kb_tool(kb, where=where)
        agent = FunctionAgent(tools=[tool], llm=calling(tool, {"query": QUERY, "top_k": 6}))
        context = Context(agent)
        await context.store.set("lang", "de")
        _, (result,) = await run(agent, context)
        assert [hit["source"] for hit in result.tool_output.raw_output] == ["ruecknahme.md"]
        assert "ctx" not in result.tool_output.raw_input["kwargs"]

    async def test_the_filter_of_the_run_is_added_to_that_of_the_developer(self, kb: LocalKB) -> None:
        english = MetadataFilters(filters=[MetadataFilter(key="lang", value="en")])
        tool = kb_tool(kb, where=lambda _context: {"page": {"$gte": 5}}, filters=english)
        _, (result,) = await run(FunctionAgent(tools=[tool], llm=calling(tool, {"query": QUERY, "top_k": 6})))
        assert [hit["source"] for hit in result.tool_output.raw_output] == ["gift-cards.md"]

    @pytest.mark.parametrize(
        "scope", [lambda _context: {"lang": {}["lang"]}, lambda _context: None], ids=["raises", "none"]
    )
    async def test_a_run_without_its_filter_finds_nothing(self, kb: LocalKB, scope: Any) -> None:
        tool = kb_tool(kb, where=scope)
        _, (result,) = await run(FunctionAgent(tools=[tool], llm=calling(tool, {"query": QUERY})))
        assert result.tool_output.is_error
        assert "[Score" not in result.tool_output.content

    async def test_two_knowledge_bases_are_two_tools_of_one_agent(self, kb: LocalKB) -> None:
        with LocalKB("tents", persist=False, embedder=HashingEmbedder()) as tents:
            tents.add_text("A tent for two people.", source="tents.md")
            tools = [kb_tool(kb), kb_tool(tents)]
            model = calling(tools[1], {"query": "tent"})
            workflow = AgentWorkflow.from_tools_or_functions(tools, llm=model)
            assert "A tent for two people." in str(await workflow.run(user_msg="Which tents are there?"))
