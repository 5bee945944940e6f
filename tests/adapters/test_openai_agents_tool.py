"""kb_tool by itself: what the model is told, what comes back, and what happens when something goes wrong."""

import asyncio
import copy
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from agents import FunctionTool, FunctionToolCustomDataContext, function_tool
from agents.strict_schema import ensure_strict_json_schema
from agents.tool_context import ToolContext
from pydantic import BaseModel

from kb_core import Document, InvalidFilterError, KBError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import SearchText, result_dict
from kb_core.tool import KBTool
from kb_openai_agents import kb_tool
from tests.adapters.openai_rules import refusals_of_function, refusals_of_strict_schema

QUERY = "how many days do I have to return something for a refund?"
FIXED_TEXT = "An error occurred while running the tool. Please try again."
NAMES = ["policies", "Google Search", "産品手冊", "a" * 80, "docs.v2", "Rückgaben & Co", "x" * 57, "x" * 58]


async def call(tool: FunctionTool, arguments: str | Mapping[str, Any], context: Any = None) -> Any:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    run = ToolContext(context, tool_name=tool.name, tool_call_id="call-1", tool_arguments=text)
    return await tool.on_invoke_tool(run, text)


def citations(tool: FunctionTool, output: Any) -> Any:
    """Give what the SDK keeps of an output as `custom_data`."""
    run = ToolContext(None, tool_name=tool.name, tool_call_id="call-1", tool_arguments="{}")
    assert tool.custom_data_extractor is not None
    return tool.custom_data_extractor(
        FunctionToolCustomDataContext(tool_context=run, tool=tool, output=output, raw_item={})
    )


class TestAnswers:
    @pytest.mark.parametrize(
        "options",
        [{}, {"top_k": 2}, {"search_type": "keyword"}, {"metadata_keys": ("source",)}, {"where": {"page": 3}}],
    )
    async def test_the_output_is_byte_for_byte_that_of_the_core_tool(
        self, kb: LocalKB, options: dict[str, Any]
    ) -> None:
        tool, core = kb_tool(kb, **options), KBTool(kb, **options)
        for top_k in (1, 3, None):
            assert await call(tool, {"query": QUERY, "top_k": top_k}) == core.call(QUERY, top_k)
        if not options:
            assert await call(tool, {"query": QUERY}) == kb.as_tool().call(QUERY)

    async def test_ids_order_and_scores_are_those_of_a_search(self, kb: LocalKB) -> None:
        found = await call(kb_tool(kb), {"query": QUERY, "top_k": 5})
        expected = [(hit.chunk.id, hit.score) for hit in kb.search(QUERY, 5)]
        assert len(expected) == 5
        assert [(hit.chunk.id, hit.score) for hit in found.results] == expected

    async def test_nothing_found_says_so(self) -> None:
        with LocalKB("empty", persist=False, embedder=HashingEmbedder()) as kb:
            tool = kb_tool(kb)
            output = await call(tool, {"query": QUERY})
        assert output == "No results found."
        assert citations(tool, output) == {"results": []}

    @pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (None, 5), (0, 1), (-4, 1), (10**9, 4), (2.0, 2)])
    async def test_top_k_is_clamped_not_refused(self, kb: LocalKB, asked: Any, given: int) -> None:
        maximum = 4 if given == 4 else 6
        found = await call(kb_tool(kb, max_top_k=maximum, top_k=min(5, maximum)), {"query": QUERY, "top_k": asked})
        assert len(found.results) == given

    @pytest.mark.parametrize(
        "query", ["", "   ", "\n\t", "?!", "日本語", "a" * 10_000, "\ud800", '"quoted\\" \u2028 \x00']
    )
    async def test_any_text_is_a_query(self, kb: LocalKB, query: str) -> None:
        assert await call(kb_tool(kb), {"query": query}) == kb.as_tool().call(query)

    async def test_32_calls_at_once_answer_what_each_answers_alone(self, kb: LocalKB) -> None:
        tool, core = kb_tool(kb), kb.as_tool()
        queries = [f"{QUERY} {number}" for number in range(32)]
        alone = [core.call(query) for query in queries]
        assert await asyncio.gather(*(call(tool, {"query": query}) for query in queries)) == alone

    def test_calls_from_threads_each_with_its_own_loop_answer_the_same(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        expected = kb.as_tool().call(QUERY)

        async def from_threads() -> list[str]:
            one = asyncio.to_thread(lambda: asyncio.run(call(tool, {"query": QUERY})))
            other = asyncio.to_thread(lambda: asyncio.run(call(tool, {"query": QUERY})))
            return await asyncio.gather(one, other)

        assert asyncio.run(from_threads()) == [expected, expected]

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda tool: replace(tool, name="other")])
    async def test_a_copy_of_the_tool_searches_the_same_knowledge_base(self, kb: LocalKB, copied: Any) -> None:
        tool = copied(kb_tool(kb))
        assert await call(tool, {"query": QUERY}) == kb.as_tool().call(QUERY)
        assert not list(refusals_of_strict_schema(tool.params_json_schema))


class TestCitations:
    async def test_they_are_the_hits_as_json(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        found = citations(tool, await call(tool, {"query": QUERY, "top_k": 3}))
        assert found == {"results": [result_dict(hit) for hit in kb.search(QUERY, 3)]}
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["results"][0]["metadata"]["url"].startswith("https://shop.example/")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf"), {"deep": float("nan")}], 10**40])
    async def test_metadata_that_json_has_no_value_for_does_not_get_in(self, value: Any) -> None:
        with LocalKB("odd", persist=False, embedder=HashingEmbedder()) as kb:
            report = kb.add_documents(
                [Document(content="Returns take 30 days.", source="a", metadata={"value": value})]
            )
            assert report.added == 1
            tool = kb_tool(kb)
            found = citations(tool, await call(tool, {"query": "returns"}))
        assert len(found["results"]) == 1
        json.dumps(found, allow_nan=False)

    def test_what_is_no_answer_has_none(self, kb: LocalKB) -> None:
        assert citations(kb_tool(kb), "Tool 'search_policies' timed out after 1 seconds.") is None

    def test_an_extractor_of_the_user_takes_their_place(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, custom_data_extractor=lambda context: {"n": len(context.output.results)})
        assert citations(tool, SearchText("text", kb.search(QUERY, 2))) == {"n": 2}


class TestWhatTheModelIsTold:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("strict", [True, False])
    def test_providers_take_the_tool_of_a_knowledge_base_of_any_name(self, name: str, strict: bool) -> None:
        with LocalKB(name, persist=False, embedder=HashingEmbedder()) as kb:
            tool, core = kb_tool(kb, strict=strict), kb.as_tool()
        assert (tool.name, tool.description, tool.strict_json_schema) == (core.name, core.description, strict)
        assert name in tool.description
        function = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
        assert not list(refusals_of_function({**function, "strict": True}))

    def test_the_schema_is_that_of_the_core_and_the_strict_helper_of_the_sdk_changes_nothing(self, kb: LocalKB) -> None:
        schema = kb_tool(kb).params_json_schema
        assert schema == kb.as_tool().parameters == ensure_strict_json_schema(copy.deepcopy(schema))

    def test_the_schema_has_no_default_no_bound_and_every_property_required(self, kb: LocalKB) -> None:
        schema = kb_tool(kb, where=lambda run: {"lang": run.context["lang"]}).params_json_schema
        assert schema["required"] == list(schema["properties"]) == ["query", "top_k"]
        assert schema["additionalProperties"] is False
        assert schema["properties"]["top_k"]["type"] == ["integer", "null"]
        assert all(set(shown) == {"type", "description"} for shown in schema["properties"].values())

    def test_tools_do_not_share_a_schema(self, kb: LocalKB) -> None:
        kb_tool(kb).params_json_schema["properties"].clear()
        assert kb_tool(kb).params_json_schema["properties"]

    def test_the_rules_would_refuse_what_the_sdk_makes_of_a_default(self) -> None:
        class Arguments(BaseModel):
            query: str
            top_k: int = 5

        schema = ensure_strict_json_schema(Arguments.model_json_schema())
        refusals = list(refusals_of_strict_schema(schema))
        assert "In context=('properties', 'top_k'), 'default' is not permitted." in refusals
        by_hand = list(refusals_of_strict_schema(Arguments.model_json_schema()))
        assert "In context=(), 'additionalProperties' is required to be supplied and to be false." in by_hand
        assert "In context=(), 'required' must include every key in properties. Missing ['top_k']." in by_hand

    def test_name_and_description_can_be_given(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, name="find_policy", description="Finds the shop's policies.")
        assert (tool.name, tool.description) == ("find_policy", "Finds the shop's policies.")

    def test_every_option_of_the_sdk_that_is_not_given_is_as_the_sdk_sets_it(self, kb: LocalKB) -> None:
        @function_tool
        async def plain() -> str:
            return ""

        ours = {"name", "description", "params_json_schema", "on_invoke_tool", "custom_data_extractor"}
        tool = kb_tool(kb)
        assert {key: value for key, value in vars(tool).items() if key not in ours} == {
            key: value for key, value in vars(plain).items() if key not in ours
        }

    def test_options_of_the_sdk_are_passed_on(self, kb: LocalKB) -> None:
        given = {
            "is_enabled": lambda *_: True,
            "needs_approval": True,
            "tool_input_guardrails": [],
            "tool_output_guardrails": [],
            "timeout_behavior": "raise_exception",
            "timeout_error_function": lambda *_: "late",
            "defer_loading": True,
            "custom_data_extractor": lambda _: None,
            "allowed_callers": ["direct", "programmatic"],
        }
        tool = kb_tool(kb, timeout=2, **given)
        assert {name: getattr(tool, name) for name in given} == given
        assert tool.timeout_seconds == 2
        known = set(inspect.signature(function_tool).parameters)
        assert given.keys() < known

    @pytest.mark.parametrize(
        ("options", "kind", "message"),
        [
            ({"name": "find policy"}, ValueError, "find policy"),
            ({"name": "a" * 65}, ValueError, "1 to 64"),
            ({"description": "a" * 1025}, ValueError, "1025"),
            ({"top_k": 0}, ValueError, "top_k"),
            ({"alpha": 2}, ValueError, "alpha"),
            ({"timeout": 0}, ValueError, "timeout"),
            ({"timeout": "soon"}, TypeError, "timeout"),
            ({"topk": 3}, TypeError, "topk"),
            ({"name_override": "other"}, TypeError, "name_override"),
            ({"output_type": dict}, TypeError, "output_type"),
            ({"where": {"page": {"$near": 3}}}, InvalidFilterError, "near"),
        ],
    )
    def test_a_wrong_option_is_an_error_when_the_tool_is_made(
        self, kb: LocalKB, options: dict[str, Any], kind: type[Exception], message: str
    ) -> None:
        with pytest.raises(kind, match=message):
            kb_tool(kb, **options)


class TestFilters:
    async def test_a_filter_of_the_developer_binds_every_search(self, kb: LocalKB) -> None:
        found = await call(kb_tool(kb, where={"lang": "de"}), {"query": QUERY, "top_k": 6})
        assert [hit.chunk.metadata["source"] for hit in found.results] == ["ruecknahme.md"]

    @pytest.mark.parametrize("lang", ["de", "en"])
    async def test_a_filter_is_made_of_the_context_of_the_run(self, kb: LocalKB, lang: str) -> None:
        async def scope(run: ToolContext[Any]) -> Mapping[str, Any]:
            return {"lang": run.context.lang}

        for where in (scope, lambda run: {"lang": run.context.lang}):
            found = await call(kb_tool(kb, where=where), {"query": QUERY, "top_k": 6}, SimpleNamespace(lang=lang))
            assert {hit.chunk.metadata["lang"] for hit in found.results} == {lang}

    async def test_runs_at_the_same_time_do_not_see_each_others_filter(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda run: {"page": run.context})
        pages = [1 + number % 6 for number in range(30)]
        outputs = await asyncio.gather(*(call(tool, {"query": QUERY}, page) for page in pages))
        assert [[hit.chunk.metadata["page"] for hit in output.results] for output in outputs] == [[p] for p in pages]

    async def test_a_run_without_the_key_finds_nothing(self, kb: LocalKB) -> None:
        output = await call(kb_tool(kb, where=lambda run: {"lang": run.context["lang"]}), {"query": QUERY}, {})
        assert output.startswith(FIXED_TEXT)
        with pytest.raises(KeyError):
            await call(
                kb_tool(kb, where=lambda run: {"lang": run.context["lang"]}, failure_error_function=None),
                {"query": QUERY},
                {},
            )

    async def test_a_function_that_gives_none_does_not_open_everything(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda _run: None, failure_error_function=None)  # type: ignore[arg-type,return-value]
        with pytest.raises(TypeError, match="got None"):
            await call(tool, {"query": QUERY})

    async def test_the_model_cannot_send_a_filter(self, kb: LocalKB) -> None:
        output = await call(kb_tool(kb, where={"lang": "de"}), {"query": QUERY, "where": {"lang": "en"}})
        assert output == "search_policies takes query and top_k, got 'where'"


class TestErrors:
    @pytest.mark.parametrize("policy", [{}, {"failure_error_function": None}])
    async def test_an_expected_error_reaches_the_model_as_text(
        self, failing_kb: LocalKB, policy: dict[str, Any]
    ) -> None:
        with pytest.raises(KBError) as caught:
            failing_kb.search(QUERY)
        tool = kb_tool(failing_kb, **policy)
        output = await call(tool, {"query": QUERY})
        assert output == str(caught.value)
        assert citations(tool, output) is None

    @pytest.mark.parametrize("policy", [{}, {"failure_error_function": None}])
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ("", "must be a JSON object"),
            ("{", "must be a JSON object"),
            ("[" * 100_000, "must be a JSON object"),
            ("null", "must be a JSON object, got NoneType"),
            ('"refund"', "must be a JSON object, got str"),
            ("[]", "must be a JSON object, got list"),
            ("{}", "needs a query"),
            ('{"query": null}', "query must be a string, got NoneType"),
            ('{"query": ["refund"]}', "query must be a string, got list"),
            ('{"query": "refund", "top_k": "five"}', "top_k must be a whole number"),
            ('{"query": "refund", "top_k": "5"}', "top_k must be a whole number"),
            ('{"query": "refund", "top_k": true}', "top_k must be a whole number"),
            ('{"query": "refund", "top_k": 2.5}', "top_k must be a whole number"),
            ('{"query": "refund", "top_k": NaN}', "top_k must be a whole number"),
            ('{"query": "refund", "top_k": 1e999}', "top_k must be a whole number"),
            ('{"query": "refund", "limit": 3}', "takes query and top_k, got 'limit'"),
        ],
    )
    async def test_wrong_arguments_reach_the_model_in_the_words_of_the_core(
        self, kb: LocalKB, arguments: str, said: str, policy: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError, match=re.escape(said)) as caught:
            kb.as_tool().parse_arguments(arguments)
        assert await call(kb_tool(kb, **policy), arguments) == str(caught.value)

    async def test_with_strict_off_the_arguments_are_checked_all_the_same(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, strict=False)
        assert await call(tool, {"query": QUERY}) == kb.as_tool().call(QUERY)
        assert await call(tool, {"query": QUERY, "top_k": "3"}) == (
            "top_k must be a whole number from 1 to 20, or null, got '3'"
        )

    async def test_a_bug_follows_the_policy_of_the_sdk(self) -> None:
        class BrokenKB(LocalKB):
            async def asearch(self, *_: Any, **__: Any) -> Any:
                raise ZeroDivisionError("the secret of the house")

        @function_tool
        async def broken(query: str) -> str:
            raise ZeroDivisionError("the secret of the house")

        async def explain(_context: Any, error: Exception) -> str:
            return f"failed: {type(error).__name__}"

        with BrokenKB("broken", persist=False, embedder=HashingEmbedder()) as kb:
            assert await call(kb_tool(kb), {"query": QUERY}) == await call(broken, {"query": QUERY})
            explained = kb_tool(kb, failure_error_function=explain)
            assert await call(explained, {"query": QUERY}) == "failed: ZeroDivisionError"
            with pytest.raises(ZeroDivisionError):
                await call(kb_tool(kb, failure_error_function=None), {"query": QUERY})

    async def test_a_value_error_in_the_search_is_a_bug_and_not_blamed_on_the_model(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, min_score="high", failure_error_function=None)
        with pytest.raises((TypeError, ValueError), match="min_score"):
            await call(tool, {"query": QUERY})
