"""kb_tool: what the model and the program see, and what happens when something goes wrong."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ValidationError

from kb_core import InvalidFilterError, KBError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import result_dict
from kb_langchain import kb_tool

QUERY = "how many days do I have to return something for a refund?"


class Result(BaseModel):
    score: float


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "call-1", "name": name, "args": arguments}


def call(tool: Any, config: RunnableConfig | None = None, **arguments: Any) -> ToolMessage:
    return tool.invoke(tool_call(tool.name, **arguments), config)


class TestAnswers:
    def test_the_content_is_byte_for_byte_that_of_the_core_tool(self, kb: LocalKB) -> None:
        message = call(kb_tool(kb), query=QUERY)
        assert message.content == kb.as_tool().call(QUERY)
        assert type(message.content) is str
        assert (message.name, message.tool_call_id, message.status) == ("search_policies", "call-1", "success")

    async def test_async_answers_the_same(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        assert await tool.ainvoke(tool_call(tool.name, query=QUERY, top_k=2)) == call(tool, query=QUERY, top_k=2)
        assert tool.coroutine is not None

    def test_a_call_with_plain_arguments_gives_the_text(self, kb: LocalKB) -> None:
        expected = kb.as_tool().call(QUERY)
        assert kb_tool(kb).invoke({"query": QUERY}) == expected
        assert kb_tool(kb).invoke(QUERY) == expected

    def test_the_artifact_is_the_hits_as_json(self, kb: LocalKB) -> None:
        message = call(kb_tool(kb), query=QUERY, top_k=3)
        assert message.artifact == [result_dict(hit) for hit in kb.search(QUERY, 3)]
        assert json.loads(json.dumps(message.artifact, allow_nan=False)) == message.artifact
        assert message.artifact[0]["metadata"]["url"].startswith("https://shop.example/")

    def test_the_model_sees_metadata_when_asked_to(self, kb: LocalKB) -> None:
        content = call(kb_tool(kb, metadata_keys=("source", "url")), query=QUERY, top_k=1).content
        assert re.search(r"\n\(source: \S+, url: https://shop\.example/\d\)$", content)

    def test_nothing_found_says_so_and_has_an_empty_artifact(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            message = call(kb_tool(kb), query=QUERY)
        assert (message.content, message.artifact) == ("No results found.", [])

    @pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (None, 5), (0, 1), (-4, 1), (10**9, 4), (2.0, 2)])
    def test_top_k_is_clamped_not_refused(self, kb: LocalKB, asked: Any, given: int) -> None:
        maximum = 4 if given == 4 else 6
        tool = kb_tool(kb, max_top_k=maximum, top_k=min(5, maximum))
        assert len(call(tool, query=QUERY, top_k=asked).artifact) == given

    async def test_a_slow_embedder_does_not_stop_the_event_loop(self) -> None:
        class SlowEmbedder(HashingEmbedder):
            def embed_query(self, text: str) -> Any:
                time.sleep(0.1)
                return super().embed_query(text)

        with LocalKB("slow", persist=False, embedder=SlowEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            search = asyncio.ensure_future(kb_tool(kb).ainvoke({"query": QUERY}))
            ticks = 0
            while not search.done():
                await asyncio.sleep(0.001)
                ticks += 1
            assert "30 days" in search.result()
        assert ticks >= 10

    async def test_32_calls_at_once_answer_what_each_answers_alone(self, kb: LocalKB) -> None:
        tool, core = kb_tool(kb), kb.as_tool()
        queries = [f"{QUERY} {number}" for number in range(32)]
        alone = [core.call(query) for query in queries]
        assert await asyncio.gather(*(tool.ainvoke({"query": query}) for query in queries)) == alone
        assert await asyncio.to_thread(tool.batch, [{"query": query} for query in queries]) == alone


class TestWhatTheModelIsTold:
    def test_name_and_description_are_those_of_the_core_tool(self, kb: LocalKB) -> None:
        tool, core = kb_tool(kb), kb.as_tool()
        assert (tool.name, tool.description) == (core.name, core.description) == ("search_policies", core.description)

    @pytest.mark.parametrize("name", ["Google Search", "産品手冊", "a" * 80, "docs.v2", "Rückgaben & Co"])
    def test_a_name_that_providers_refuse_is_made_legal_and_stays_in_the_description(self, name: str) -> None:
        with LocalKB(name, persist=False, embedder=HashingEmbedder()) as kb:
            tool = kb_tool(kb)
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.name)
        assert tool.name == kb.as_tool().name
        assert name in tool.description
        assert convert_to_openai_tool(tool)["function"]["name"] == tool.name

    def test_two_names_that_look_alike_give_two_tools(self) -> None:
        with (
            LocalKB("docs a", persist=False, embedder=HashingEmbedder()) as one,
            LocalKB("docs.a", persist=False, embedder=HashingEmbedder()) as other,
        ):
            assert kb_tool(one).name != kb_tool(other).name

    def test_the_schema_has_query_and_top_k_alone_and_suits_a_strict_mode(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda config: {"lang": config["configurable"]["lang"]})
        for strict in (None, True):
            parameters = convert_to_openai_tool(tool, strict=strict)["function"]["parameters"]
            described = kb.as_tool().parameters["properties"]
            assert parameters["required"] == ["query", "top_k"]
            assert parameters["properties"] == {
                "query": {"type": "string", "description": described["query"]["description"]},
                "top_k": {
                    "anyOf": [{"type": "integer"}, {"type": "null"}],
                    "description": described["top_k"]["description"],
                },
            }
        assert parameters["additionalProperties"] is False
        assert set(tool.args) == {"query", "top_k"}

    def test_the_arguments_model_is_pydantic_and_takes_a_query_alone(self, kb: LocalKB) -> None:
        schema = kb_tool(kb).get_input_schema()
        assert issubclass(schema, BaseModel)
        assert schema(query="refund").model_dump() == {"query": "refund", "top_k": 5}

    def test_name_and_description_can_be_given(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, name="find_policy", description="Finds the shop's policies.")
        assert (tool.name, tool.description) == ("find_policy", "Finds the shop's policies.")

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
        artifact = call(kb_tool(kb, where={"lang": "de"}), query=QUERY, top_k=6).artifact
        assert [hit["source"] for hit in artifact] == ["ruecknahme.md"]

    @pytest.mark.parametrize("lang", ["de", "en"])
    async def test_a_filter_is_made_of_the_config_of_the_run(self, kb: LocalKB, lang: str) -> None:
        tool = kb_tool(kb, where=lambda config: {"lang": config["configurable"]["lang"]})
        config: RunnableConfig = {"configurable": {"lang": lang}}
        for message in (
            call(tool, config, query=QUERY, top_k=6),
            await tool.ainvoke(tool_call(tool.name, query=QUERY, top_k=6), config),
        ):
            assert {hit["metadata"]["lang"] for hit in message.artifact} == {lang}

    async def test_runs_at_the_same_time_do_not_see_each_others_filter(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda config: {"page": config["configurable"]["page"]})
        pages = [1 + number % 6 for number in range(30)]
        messages = await asyncio.gather(
            *(tool.ainvoke(tool_call(tool.name, query=QUERY), {"configurable": {"page": page}}) for page in pages)
        )
        assert [[hit["metadata"]["page"] for hit in message.artifact] for message in messages] == [[p] for p in pages]

    def test_a_run_without_the_key_fails_and_finds_nothing(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda config: {"lang": config["configurable"]["lang"]})
        with pytest.raises(KeyError):
            call(tool, query=QUERY)

    def test_a_function_that_gives_none_does_not_open_everything(self, kb: LocalKB) -> None:
        with pytest.raises(TypeError, match="got None"):
            call(kb_tool(kb, where=lambda _config: None), query=QUERY)  # type: ignore[arg-type,return-value]

    def test_the_model_cannot_send_a_filter(self, kb: LocalKB) -> None:
        message = call(kb_tool(kb, where={"lang": "de"}), query=QUERY, where={"lang": "en"})
        assert message.status == "error"
        assert "where" in message.content
        assert not message.artifact


class TestErrors:
    async def test_an_expected_error_reaches_the_model_as_a_message(self, failing_kb: LocalKB) -> None:
        with pytest.raises(KBError) as caught:
            failing_kb.search(QUERY)
        tool = kb_tool(failing_kb)
        for message in (call(tool, query=QUERY), await tool.ainvoke(tool_call(tool.name, query=QUERY))):
            assert (message.content, message.status) == (str(caught.value), "error")

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
        ],
    )
    async def test_wrong_arguments_reach_the_model_in_the_words_of_the_core(
        self, kb: LocalKB, arguments: dict[str, Any], said: str
    ) -> None:
        tool = kb_tool(kb)
        with pytest.raises(ValueError, match=re.escape(said)) as caught:
            kb.as_tool().parse_arguments(arguments)
        for message in (call(tool, **arguments), await tool.ainvoke(tool_call(tool.name, **arguments))):
            assert (message.content, message.status) == (str(caught.value), "error")

    @pytest.mark.parametrize("kind", [ZeroDivisionError, ValidationError])
    async def test_a_bug_is_not_hidden_from_the_program(self, kind: type[Exception]) -> None:
        class BrokenKB(LocalKB):
            def search(self, *_: Any, **__: Any) -> Any:
                return 1 / 0 if kind is ZeroDivisionError else Result(score="high")  # type: ignore[arg-type]

            async def asearch(self, *_: Any, **__: Any) -> Any:
                return self.search()

        with BrokenKB("broken", persist=False, embedder=HashingEmbedder()) as kb:
            tool = kb_tool(kb)
            with pytest.raises(kind):
                call(tool, query=QUERY)
            with pytest.raises(kind):
                await tool.ainvoke(tool_call(tool.name, query=QUERY))

    def test_callbacks_see_the_call(self, kb: LocalKB) -> None:
        seen: list[Any] = []

        class Recorder(BaseCallbackHandler):
            def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
                seen.append((serialized["name"], kwargs["inputs"]))

            def on_tool_end(self, output: Any, **_kwargs: Any) -> None:
                seen.append(output)

        message = call(kb_tool(kb), {"callbacks": [Recorder()]}, query=QUERY)
        assert seen == [("search_policies", {"query": QUERY}), message]
