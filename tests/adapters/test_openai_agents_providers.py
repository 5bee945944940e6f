"""kb_tool over the wire: OpenAI's own client, both APIs, and a server that refuses what the real one refuses."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    ToolCallOutputItem,
)
from pydantic import BaseModel

from kb_core import LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import result_dict
from kb_openai_agents import kb_tool
from tests.adapters.openai_server import OpenAIServer, serving

QUERY = "how many days do I have to return something for a refund?"
OFFLINE = RunConfig(tracing_disabled=True)
ARGUMENTS = json.dumps({"query": QUERY, "top_k": 3})
MODELS = [OpenAIResponsesModel, OpenAIChatCompletionsModel]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


async def run(server: OpenAIServer, model: Any, tool: FunctionTool, *, streamed: bool = False) -> Any:
    async with openai.AsyncOpenAI(base_url=server.url, api_key="key", max_retries=0) as client:
        agent = Agent(name="assistant", model=model("any", openai_client=client), tools=[tool])
        if not streamed:
            return await Runner.run(agent, "returns?", run_config=OFFLINE)
        result = Runner.run_streamed(agent, "returns?", run_config=OFFLINE)
        await _drain(result.stream_events())
        return result


async def _drain(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


def shown(server: OpenAIServer) -> dict[str, Any]:
    """The tool as it went over the wire, the same for both APIs."""
    tool = server.requests[0][1]["tools"][0]
    return tool.get("function", tool)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streamed", [False, True])
class TestBothAPIs:
    async def test_the_text_of_the_core_tool_goes_over_the_wire(self, kb: LocalKB, model: Any, streamed: bool) -> None:
        with serving(ARGUMENTS) as server:
            result = await run(server, model, kb_tool(kb), streamed=streamed)
        assert result.final_output == kb.as_tool().call(QUERY, 3)
        assert [path for path, _ in server.requests] == [server.requests[0][0]] * 2
        (output,) = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert output.custom_data == {"results": [result_dict(hit) for hit in kb.search(QUERY, 3)]}
        assert "chunk_id" not in json.dumps(server.requests[1][1])  # citations stay with the program

    async def test_parallel_calls_are_answered_each(self, kb: LocalKB, model: Any, streamed: bool) -> None:
        queries = ["returns", "warranty", "gift card", "Rückgabe"]
        with serving(*(json.dumps({"query": query, "top_k": None}) for query in queries)) as server:
            result = await run(server, model, kb_tool(kb), streamed=streamed)
        assert result.final_output == "\n---\n".join(kb.as_tool().call(query) for query in queries)

    async def test_a_model_that_keeps_to_no_schema_is_told_what_is_wrong(
        self, kb: LocalKB, model: Any, streamed: bool
    ) -> None:
        sent = [
            '{"query": "refund", "top_k": "five"}',
            '{"query": "refund", "limit": 3}',
            '{"q": 1}',
            '{"query": "refund"}',
        ]
        with serving(*sent) as server:
            result = await run(server, model, kb_tool(kb, failure_error_function=None), streamed=streamed)
        assert result.final_output.split("\n---\n") == [
            "top_k must be a whole number from 1 to 20, or null, got 'five'",
            "search_policies takes query and top_k, got 'limit'",
            "search_policies takes query and top_k, got 'q'",
            kb.as_tool().call("refund"),
        ]


@pytest.mark.parametrize("model", MODELS)
class TestTheDefinition:
    @pytest.mark.parametrize("strict", [True, False])
    async def test_schema_and_strictness_go_over_the_wire_as_they_are(
        self, kb: LocalKB, model: Any, strict: bool
    ) -> None:
        with serving(ARGUMENTS) as server:
            await run(server, model, kb_tool(kb, strict=strict))
        core = kb.as_tool()
        assert {key: shown(server)[key] for key in ("name", "description", "parameters", "strict")} == {
            "name": core.name,
            "description": core.description,
            "parameters": core.parameters,
            "strict": strict,
        }

    @pytest.mark.parametrize("name", ["Google Search", "産品手冊", "a" * 80, "docs.v2", "Rückgaben & Co"])
    async def test_a_knowledge_base_of_any_name_is_taken_and_called(self, model: Any, name: str) -> None:
        with LocalKB(name, persist=False, embedder=HashingEmbedder()) as kb, serving(ARGUMENTS) as server:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            result = await run(server, model, kb_tool(kb))
            assert result.final_output == kb.as_tool().call(QUERY, 3)
        assert name in shown(server)["description"]

    @pytest.mark.parametrize(
        ("name", "message"), [("search_Google Search", "does not match pattern"), ("a" * 65, "too long")]
    )
    async def test_the_server_would_have_refused_other_names(
        self, kb: LocalKB, model: Any, name: str, message: str
    ) -> None:
        tool = kb_tool(kb)
        tool.name = name
        with serving(ARGUMENTS) as server, pytest.raises(openai.BadRequestError, match=message):
            await run(server, model, tool)

    async def test_the_server_would_have_refused_a_schema_with_a_default(self, model: Any) -> None:
        class Arguments(BaseModel):
            query: str
            top_k: int = 5

        async def search(_context: Any, _arguments: str) -> str:
            return "never"

        tool = FunctionTool("search", "", Arguments.model_json_schema(), search)
        with serving(ARGUMENTS) as server, pytest.raises(openai.BadRequestError, match="'default' is not permitted"):
            await run(server, model, tool)
