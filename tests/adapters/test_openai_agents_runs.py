"""kb_tool in whole runs of the SDK, with its scripted model."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    ToolCallOutputItem,
    ToolGuardrailFunctionOutput,
    UserError,
    tool_input_guardrail,
    tool_output_guardrail,
)

from kb_core import KBError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_core.formatting import SearchText, result_dict
from kb_openai_agents import kb_tool
from tests.adapters.openai_models import ScriptedModel, assistant_message, function_call

QUERY = "how many days do I have to return something for a refund?"
OFFLINE = RunConfig(tracing_disabled=True)  # the default exporter of traces would dial out


def call_of(tool: Any, query: str = QUERY, call_id: str = "call-1", **arguments: Any) -> Any:
    return function_call(tool.name, {"query": query, "top_k": None, **arguments}, call_id=call_id)


def agent_of(tool: Any, *steps: list[Any]) -> Agent[Any]:
    """An agent whose model calls the tool, then says what is scripted, at last `done`."""
    script = [*(steps or ([call_of(tool)],)), [assistant_message("done")]]
    return Agent(name="assistant", model=ScriptedModel(script), tools=[tool])


def seen_by_the_model(agent: Agent[Any]) -> dict[str, str]:
    """The outputs of tools in the input of the last call of the model, by call id."""
    items = agent.model.calls[-1].input  # type: ignore[union-attr]
    return {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}


def outputs_of(result: Any) -> list[ToolCallOutputItem]:
    return [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]


class GatedEmbedder(HashingEmbedder):
    """Embeds a query when it is let to, as a slow service would."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = threading.Event()

    def embed_query(self, text: str) -> Any:
        self.is_open.wait(60)
        return super().embed_query(text)


@pytest.fixture
def gated() -> Iterator[tuple[LocalKB, GatedEmbedder]]:
    embedder = GatedEmbedder()
    with LocalKB("gated", persist=False, embedder=embedder) as kb:
        kb.add_text("Returns are accepted within 30 days.", source="returns.md")
        yield kb, embedder
        embedder.is_open.set()


class TestARun:
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_the_model_sees_the_text_and_the_program_gets_the_hits(self, kb: LocalKB, streamed: bool) -> None:
        tool = kb_tool(kb)
        agent = agent_of(tool)
        if streamed:
            result: Any = Runner.run_streamed(agent, "returns?", run_config=OFFLINE)
            names = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
            assert names == ["tool_called", "tool_output", "message_output_created"]
        else:
            result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert result.final_output == "done"
        assert seen_by_the_model(agent) == {"call-1": kb.as_tool().call(QUERY)}
        (output,) = outputs_of(result)
        assert isinstance(output.output, SearchText)
        assert output.custom_data == {"results": [result_dict(hit) for hit in kb.search(QUERY, 5)]}
        json.dumps(output.custom_data, allow_nan=False)
        agent.model.assert_complete()  # type: ignore[union-attr]

    async def test_a_run_inside_a_thread_without_a_loop_works(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        result = await asyncio.to_thread(
            lambda: asyncio.run(Runner.run(agent_of(tool), "returns?", run_config=OFFLINE))
        )
        assert outputs_of(result)[0].output == kb.as_tool().call(QUERY)

    async def test_a_session_keeps_plain_text_and_the_next_run_reads_it(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        session = SQLiteSession("conversation")
        try:
            await Runner.run(agent_of(tool), "returns?", session=session, run_config=OFFLINE)
            stored = [item for item in await session.get_items() if item.get("type") == "function_call_output"]
            assert [item["output"] for item in stored] == [kb.as_tool().call(QUERY)]  # type: ignore[typeddict-item]
            assert json.loads(json.dumps(stored)) == stored
            again = agent_of(tool, [call_of(tool, "warranty", "call-2")])
            await Runner.run(again, "and the warranty?", session=session, run_config=OFFLINE)
            assert seen_by_the_model(again) == {
                "call-1": kb.as_tool().call(QUERY),
                "call-2": kb.as_tool().call("warranty"),
            }
        finally:
            session.close()

    async def test_a_disabled_tool_is_not_shown_to_the_model(self, kb: LocalKB) -> None:
        for is_enabled in (True, False, lambda run, _agent: run.context == "staff"):
            tool = kb_tool(kb, is_enabled=is_enabled)
            for context in ("staff", "guest"):
                agent = Agent(name="assistant", model=ScriptedModel([[assistant_message("hello")]]), tools=[tool])
                await Runner.run(agent, "hello", context=context, run_config=OFFLINE)
                expected = is_enabled if isinstance(is_enabled, bool) else context == "staff"
                assert bool(agent.model.calls[0].tools) == expected  # type: ignore[union-attr]

    async def test_a_filter_is_made_of_the_context_of_the_run(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, where=lambda run: {"lang": run.context["lang"]})

        async def sources(lang: str) -> set[str]:
            result = await Runner.run(agent_of(tool), "returns?", context={"lang": lang}, run_config=OFFLINE)
            return {hit["metadata"]["lang"] for hit in outputs_of(result)[0].custom_data["results"]}  # type: ignore[index]

        assert await asyncio.gather(*map(sources, ["de", "en"] * 8)) == [{"de"}, {"en"}] * 8


class TestManyCalls:
    async def test_parallel_calls_of_one_turn_get_their_own_answers(self, kb: LocalKB) -> None:
        tool = kb_tool(kb)
        queries = {f"call-{number}": f"{QUERY} {number}" for number in range(32)}
        agent = agent_of(tool, [call_of(tool, query, id_) for id_, query in queries.items()])
        result = await Runner.run(agent, "all of it", run_config=OFFLINE)
        core = kb.as_tool()
        assert seen_by_the_model(agent) == {id_: core.call(query) for id_, query in queries.items()}
        assert len(outputs_of(result)) == 32

    async def test_parallel_calls_search_at_the_same_time(self) -> None:
        together = threading.Barrier(4, timeout=60)  # broken, an error, if they came one after the other

        class MeetingEmbedder(HashingEmbedder):
            def embed_query(self, text: str) -> Any:
                together.wait()
                return super().embed_query(text)

        with LocalKB("meeting", persist=False, embedder=MeetingEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            tool = kb_tool(kb, failure_error_function=None)
            calls = [call_of(tool, f"returns {number}", f"call-{number}") for number in range(4)]
            agent = agent_of(tool, calls)
            await Runner.run(agent, "all of it", run_config=OFFLINE)
        assert all("30 days" in output for output in seen_by_the_model(agent).values())

    async def test_a_slow_embedder_does_not_stop_the_event_loop(self) -> None:
        class SlowEmbedder(HashingEmbedder):
            def embed_query(self, text: str) -> Any:
                time.sleep(0.1)
                return super().embed_query(text)

        with LocalKB("slow", persist=False, embedder=SlowEmbedder()) as kb:
            kb.add_text("Returns are accepted within 30 days.", source="returns.md")
            agent = agent_of(kb_tool(kb))
            run = asyncio.ensure_future(Runner.run(agent, "returns?", run_config=OFFLINE))
            ticks = 0
            while not run.done():
                await asyncio.sleep(0.001)
                ticks += 1
            await run
        assert "30 days" in seen_by_the_model(agent)["call-1"]
        assert ticks >= 10


class TestErrors:
    async def test_an_expected_error_reaches_the_model_and_the_run_goes_on(self, failing_kb: LocalKB) -> None:
        agent = agent_of(kb_tool(failing_kb, failure_error_function=None))
        result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert result.final_output == "done"
        with pytest.raises(KBError) as caught:
            failing_kb.search(QUERY)
        assert seen_by_the_model(agent)["call-1"] == str(caught.value)
        assert outputs_of(result)[0].custom_data is None

    async def test_wrong_arguments_reach_the_model_and_it_can_try_again(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, failure_error_function=None)
        broken = function_call(tool.name, '{"query": "ret', call_id="call-0")
        agent = agent_of(tool, [broken], [call_of(tool, top_k="five")], [call_of(tool, call_id="call-2")])
        await Runner.run(agent, "returns?", run_config=OFFLINE)
        seen = seen_by_the_model(agent)
        assert seen["call-0"].startswith("the arguments of search_policies must be a JSON object: ")
        assert seen["call-1"] == "top_k must be a whole number from 1 to 20, or null, got 'five'"
        assert seen["call-2"] == kb.as_tool().call(QUERY)

    async def test_a_bug_gives_the_fixed_text_or_ends_the_run_as_the_developer_chose(self) -> None:
        class BrokenKB(LocalKB):
            async def asearch(self, *_: Any, **__: Any) -> Any:
                raise ZeroDivisionError("the secret of the house")

        with BrokenKB("broken", persist=False, embedder=HashingEmbedder()) as kb:
            agent = agent_of(kb_tool(kb))
            await Runner.run(agent, "returns?", run_config=OFFLINE)
            assert seen_by_the_model(agent)["call-1"].startswith("An error occurred while running the tool.")
            agent = agent_of(kb_tool(kb, failure_error_function=None))
            with pytest.raises(UserError, match="search_broken") as caught:
                await Runner.run(agent, "returns?", run_config=OFFLINE)
            assert isinstance(caught.value.__cause__, ZeroDivisionError)

    async def test_a_search_that_takes_too_long_is_told_to_the_model(
        self, gated: tuple[LocalKB, GatedEmbedder]
    ) -> None:
        kb, _ = gated
        agent = agent_of(kb_tool(kb, timeout=0.01))
        result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert seen_by_the_model(agent)["call-1"] == "Tool 'search_gated' timed out after 0.01 seconds."
        assert outputs_of(result)[0].custom_data is None


class TestGuardrails:
    async def test_one_on_the_input_keeps_the_search_from_running(self, gated: tuple[LocalKB, GatedEmbedder]) -> None:
        kb, _ = gated  # never opened: a search would not end

        @tool_input_guardrail
        def refuse(data: Any) -> ToolGuardrailFunctionOutput:
            assert json.loads(data.context.tool_arguments)["query"] == QUERY
            return ToolGuardrailFunctionOutput.reject_content("not allowed")

        agent = agent_of(kb_tool(kb, tool_input_guardrails=[refuse]))
        await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert seen_by_the_model(agent) == {"call-1": "not allowed"}

    async def test_one_on_the_output_sees_the_answer_and_what_it_holds_back_has_no_citations(self, kb: LocalKB) -> None:
        seen: list[Any] = []

        @tool_output_guardrail
        def withhold(data: Any) -> ToolGuardrailFunctionOutput:
            seen.append(data.output)
            return ToolGuardrailFunctionOutput.reject_content("withheld")

        agent = agent_of(kb_tool(kb, tool_output_guardrails=[withhold]))
        result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert seen == [kb.as_tool().call(QUERY)]
        assert seen_by_the_model(agent) == {"call-1": "withheld"}
        assert outputs_of(result)[0].custom_data is None


class TestStates:
    async def test_a_call_waits_for_approval_across_a_restart(self, kb: LocalKB) -> None:
        tool = kb_tool(kb, needs_approval=True)
        agent = agent_of(tool)
        waiting = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert [item.name for item in waiting.interruptions] == [tool.name]
        state = await RunState.from_json(agent, json.loads(json.dumps(waiting.to_state().to_json(), allow_nan=False)))
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state, run_config=OFFLINE)
        assert result.final_output == "done"
        assert seen_by_the_model(agent) == {"call-1": kb.as_tool().call(QUERY)}

    async def test_a_call_that_is_rejected_is_not_run(self, gated: tuple[LocalKB, GatedEmbedder]) -> None:
        kb, _ = gated
        agent = agent_of(kb_tool(kb, needs_approval=True))
        state = (await Runner.run(agent, "returns?", run_config=OFFLINE)).to_state()
        state.reject(state.get_interruptions()[0])
        await Runner.run(agent, state, run_config=OFFLINE)
        assert "[Score" not in seen_by_the_model(agent)["call-1"]

    async def test_a_policy_of_approval_gets_the_arguments_of_the_model(self, kb: LocalKB) -> None:
        asked: list[Any] = []

        async def many(_run: Any, arguments: dict[str, Any], _call_id: str) -> bool:
            asked.append(arguments)
            return arguments["top_k"] > 3

        tool = kb_tool(kb, needs_approval=many)
        agent = agent_of(tool, [call_of(tool, top_k=2)], [call_of(tool, top_k=4, call_id="call-2")])
        result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        assert [item.call_id for item in result.interruptions] == ["call-2"]
        assert {"query": QUERY, "top_k": 2} in asked

    async def test_the_state_of_a_run_keeps_text_and_citations_as_json(self, kb: LocalKB) -> None:
        agent = agent_of(kb_tool(kb))
        result = await Runner.run(agent, "returns?", run_config=OFFLINE)
        written = json.dumps(result.to_state().to_json(), allow_nan=False)
        (before,) = outputs_of(result)
        state = await RunState.from_json(agent, json.loads(written))
        (after,) = [item for item in state._generated_items if isinstance(item, ToolCallOutputItem)]
        assert (after.output, after.custom_data) == (kb.as_tool().call(QUERY), before.custom_data)
        assert after.raw_item["output"] == before.raw_item["output"]  # type: ignore[index,typeddict-item]
