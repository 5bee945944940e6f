"""kb_tool: what the model and the program see, and what happens when something goes wrong."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool
from pydantic import BaseModel

from kb_core import InvalidFilterError, KBError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import result_dict
from kb_llamaindex import kb_tool

QUERY = "how many days do I have to return something for a refund?"


class TestAnswers:
    def test_the_content_is_byte_for_byte_that_of_the_core_tool(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        output = tool.call(query=QUERY)
        assert isinstance(tool, FunctionTool)
        assert isinstance(output, ToolOutput)
        assert output.content == str(output) == kb.as_tool().call(QUERY)
        assert (output.tool_name, output.is_error) == ("search_policies", False)

    async def test_async_answers_the_same(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        for arguments in ({"query": QUERY}, {"query": QUERY, "top_k": 2}, {"query": QUERY, "top_k": None}):
            assert await tool.acall(**arguments) == tool.call(**arguments)
            assert await acall_tool(tool, arguments) == call_tool(tool, arguments) == tool(**arguments)

    async def test_arguments_may_come_by_place(self, kb: LocalKB) -> None:
        tool, expected = kb_tool(kb), kb.as_tool().call(QUERY, 2)
        assert tool(QUERY, 2).content == (await tool.acall(QUERY, top_k=2)).content == expected
        assert tool(QUERY, 2).raw_input == {"args": (QUERY, 2), "kwargs": {}}
        for values, named in (((QUERY, 2, 3), {}), ((QUERY,), {"query": QUERY})):
            with pytest.raises(TypeError, match="takes query and top_k, each once"):
                tool(*values, **named)

    def test_the_raw_output_is_the_hits_as_json(self, kb: LocalKB) -> None:
        output = kb_tool(kb).call(query=QUERY, top_k=3)
        assert output.raw_output == [result_dict(hit) for hit in kb.search(QUERY, 3)]
        assert json.loads(json.dumps(output.raw_output, allow_nan=False)) == output.raw_output
        assert output.raw_output[0]["metadata"]["url"].startswith("https://shop.example/")
        assert ToolOutput.model_validate_json(output.model_dump_json()).raw_output == output.raw_output

    def test_the_model_sees_metadata_when_asked_to(self, kb: LocalKB) -> None:
        content = kb_tool(kb, metadata_keys=("source", "url")).call(query=QUERY, top_k=1).content
        assert re.search(r"\n\(source: \S+, url: https://shop\.example/\d\)$", content)

    def test_nothing_found_says_so_and_has_no_hits(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            output = kb_tool(kb).call(query=QUERY)
        assert (output.content, output.raw_output, output.is_error) == ("No results found.", [], False)

    @pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (None, 5), (0, 1), (-4, 1), (10**9, 4), (2.0, 2)])
    def test_top_k_is_clamped_not_refused(self, kb: LocalKB, asked: Any, given: int) -> None:
        maximum = 4 if given == 4 else 6
        tool = kb_tool(kb, max_top_k=maximum, top_k=min(5, maximum))
        assert len(tool.call(query=QUERY, top_k=asked).raw_output) == given

    async def test_a_slow_embedder_does_not_stop_the_event_loop(self) -> None:
        class SlowEmbedder(HashingEmbedder):
            def embed_query(self, text: str) -> Any:
                time.sleep(0.1)
                return super().embed_query(text)

        with LocalKB("slow", persist=False, embedder=SlowEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            search = asyncio.ensure_future(kb_tool(kb).acall(query=QUERY))
            ticks = 0
            while not search.done():
                await asyncio.sleep(0.001)
                ticks += 1
            assert "30 days" in search.result().content
        assert ticks >= 10

    async def test_32_calls_at_once_answer_what_each_answers_alone(self, kb: LocalKB) -> None:
        tool, core = kb_tool(kb), kb.as_tool()
        queries = [f"{QUERY} {number}" for number in range(32)]
        outputs = await asyncio.gather(*(tool.acall(query=query) for query in queries))
        assert [output.content for output in outputs] == [core.call(query) for query in queries]


class TestWhatTheModelIsTold:
    def test_name_and_description_are_those_of_the_core_tool(self, kb: LocalKB) -> None:
        metadata, core = kb_tool(kb).metadata, kb.as_tool()
        assert (metadata.name, metadata.description) == (core.name, core.description)
        assert metadata.name == "search_policies"

    @pytest.mark.parametrize("name", ["Google Search", "産品手冊", "a" * 80, "docs.v2", "Rückgaben & Co"])
    def test_a_name_that_providers_refuse_is_made_legal_and_is_the_name_on_the_wire(self, name: str) -> None:
        with LocalKB(name, persist=False, embedder=HashingEmbedder()) as kb:
            tool = kb_tool(kb)
            assert tool.metadata.name == kb.as_tool().name == tool.call(query="x").tool_name
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.metadata.get_name())
        assert name in tool.metadata.description
        # LlamaIndex would put `_` for what it takes as illegal, and no longer find the tool that the model calls.
        assert tool.metadata.to_openai_tool()["function"]["name"] == tool.metadata.name

    def test_two_names_that_look_alike_give_two_tools(self) -> None:
        with (
            LocalKB("docs a", persist=False, embedder=HashingEmbedder()) as one,
            LocalKB("docs.a", persist=False, embedder=HashingEmbedder()) as other,
        ):
            assert kb_tool(one).metadata.name != kb_tool(other).metadata.name

    @pytest.mark.parametrize("where", [None, lambda _context: {"lang": "en"}])
    def test_the_schema_has_query_and_top_k_alone(self, kb: LocalKB, where: Any) -> None:
        parameters = kb_tool(kb, where=where).metadata.get_parameters_dict()
        described = kb.as_tool().parameters["properties"]
        assert parameters["required"] == ["query", "top_k"]
        shown = {
            name: {k: v for k, v in field.items() if k != "title"} for name, field in parameters["properties"].items()
        }
        assert shown == {
            "query": {"type": "string", "description": described["query"]["description"]},
            "top_k": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "description": described["top_k"]["description"],
            },
        }

    def test_the_longest_description_is_taken_by_llamaindex(self) -> None:
        with LocalKB("long", persist=False, embedder=HashingEmbedder(), description="About tents. " * 200) as kb:
            assert len(kb_tool(kb).metadata.to_openai_tool()["function"]["description"]) <= 1024

    def test_name_and_description_can_be_given(self, kb: LocalKB) -> None:
        metadata = kb_tool(kb, name="find_policy", description="Finds the shop's policies.").metadata
        assert (metadata.name, metadata.description) == ("find_policy", "Finds the shop's policies.")

    @pytest.mark.parametrize(
        ("options", "kind", "message"),
        [
            ({"name": "find policy"}, ValueError, "find policy"),
            ({"top_k": 0}, ValueError, "top_k"),
            ({"topk": 3}, TypeError, "topk"),
            ({"where": {"page": {"$near": 3}}}, InvalidFilterError, "near"),
        ],
    )
    def test_a_wrong_option_is_an_error_when_the_tool_is_made(
        self, kb: LocalKB, options: dict[str, Any], kind: type[Exception], message: str
    ) -> None:
        with pytest.raises(kind, match=message):
            kb_tool(kb, **options)


class TestFilters:
    def test_a_filter_of_the_developer_binds_every_search(self, kb: LocalKB) -> None:
        output = kb_tool(kb, where={"lang": "de"}).call(query=QUERY, top_k=6)
        assert [hit["source"] for hit in output.raw_output] == ["ruecknahme.md"]

    async def test_the_model_cannot_send_a_filter(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where={"lang": "de"})
        for output in (
            tool.call(query=QUERY, where={"lang": "en"}),
            await tool.acall(query=QUERY, where={"lang": "en"}),
        ):
            assert output.is_error
            assert "'where'" in output.content

    def test_a_filter_of_the_run_needs_a_run(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda _context: {"lang": "de"})
        with pytest.raises(ValueError, match="Context is required"):
            tool.call(query=QUERY)


class TestErrors:
    async def test_an_expected_error_is_an_output(self, failing_kb: LocalKB) -> None:
        with pytest.raises(KBError) as caught:
            failing_kb.search(QUERY)
        tool = kb_tool(failing_kb)
        for output in (tool.call(query=QUERY), await tool.acall(query=QUERY)):
            assert (output.content, output.is_error) == (str(caught.value), True)
            assert output.raw_input == {"args": (), "kwargs": {"query": QUERY}}
            assert json.loads(output.model_dump_json())["raw_output"] == str(caught.value)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({}, "needs a query"),
            ({"query": None}, "query must be a string, got NoneType"),
            ({"query": ["refund"]}, "query must be a string, got list"),
            ({"query": "refund", "top_k": "five"}, "top_k must be a whole number"),
            ({"query": "refund", "top_k": True}, "top_k must be a whole number"),
            ({"query": "refund", "top_k": 2.5}, "top_k must be a whole number"),
            ({"query": "refund", "limit": 3}, "takes query and top_k, got 'limit'"),
            ({"input": "refund"}, "takes query and top_k, got 'input'"),
        ],
    )
    async def test_wrong_arguments_reach_the_model_in_the_words_of_the_core(
        self, kb: LocalKB, arguments: dict[str, Any], said: str
    ) -> None:
        tool = kb_tool(kb)
        with pytest.raises(ValueError, match=re.escape(said)) as caught:
            kb.as_tool().parse_arguments(arguments)
        for output in (tool.call(**arguments), await tool.acall(**arguments), call_tool(tool, arguments)):
            assert (output.content, output.is_error) == (str(caught.value), True)

    async def test_a_bug_is_not_hidden_from_the_program(self) -> None:
        class BrokenKB(LocalKB):
            def search(self, *_: Any, **__: Any) -> Any:
                return Score(score="high")  # type: ignore[arg-type]

            async def asearch(self, *_: Any, **__: Any) -> Any:
                return self.search()

        class Score(BaseModel):
            score: float

        with BrokenKB("broken", persist=False, embedder=HashingEmbedder()) as kb:
            tool = kb_tool(kb)
            with pytest.raises(ValueError, match="score"):
                tool.call(query=QUERY)
            with pytest.raises(ValueError, match="score"):
                await tool.acall(query=QUERY)
