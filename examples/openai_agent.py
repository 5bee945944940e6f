"""An agent of the OpenAI Agents SDK that looks things up before it answers. Offline unless you name a model.

Run it: python examples/openai_agent.py
With a real model: OPENAI_API_KEY=… KB_MODEL=gpt-5-mini python examples/openai_agent.py
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model, RunConfig, Runner, ToolCallOutputItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder
from kb_openai_agents import kb_tool

CORPUS = Path(__file__).parent / "corpus"
INTERNAL = [str(CORPUS / name) for name in ("handbook.md", "oncall.md")]
QUESTION = "how long are invoices kept?"


def quote(call: Any) -> list[Any]:
    """Answer with the best passage of what the tool gave, in place of a language model."""
    best = call.input[-1]["output"].split("\n\n[Score: ")[0]
    return [assistant_message(best.partition("] ")[2])]


def model_for(tool: FunctionTool) -> str | Model:
    if "KB_MODEL" in os.environ:
        return os.environ["KB_MODEL"]
    look_up = function_call(tool.name, {"query": QUESTION, "top_k": 3}, call_id="1")
    return ScriptedModel([[look_up], ModelStep.respond(quote)])


async def main() -> None:
    with LocalKB("shop", embedder=StaticEmbedder(), chunk_size=256, chunk_overlap=0, persist=False) as kb:
        kb.add(CORPUS)
        # The filter is made of the context of the run: the model neither sees nor chooses it.
        tool = kb_tool(kb, where=lambda run: {} if run.context["is_staff"] else {"source": {"$nin": INTERNAL}})
        agent = Agent(
            name="clerk",
            instructions="Look it up before you answer, and answer from the passages alone.",
            model=model_for(tool),
            tools=[tool],
        )
        offline = RunConfig(tracing_disabled="KB_MODEL" not in os.environ)
        result = await Runner.run(agent, QUESTION, context={"is_staff": False}, run_config=offline)
        print(result.final_output)
        # The model read the text; the program gets the hits, for citations.
        for item in result.new_items:
            if isinstance(item, ToolCallOutputItem) and item.custom_data:
                print([f"{Path(hit['source']).name}: {hit['score']:.3f}" for hit in item.custom_data["results"]])


if __name__ == "__main__":
    asyncio.run(main())
