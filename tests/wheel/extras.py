"""Run with the wheel and all its extras, away from the sources: every adapter answers."""

import asyncio
import json

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder


def main() -> None:
    with LocalKB("wheel", persist=False, embedder=StaticEmbedder()) as kb:
        kb.add_text("Refunds are paid within 30 days.", source="policy.md")
        expected = kb.as_tool().call("refunds")
        langchain(kb, expected)
        llamaindex(kb, expected)
        asyncio.run(openai_agents(kb, expected))
    print("the adapters in the wheel work")


def langchain(kb: LocalKB, expected: str) -> None:
    from kb_langchain import KBRetriever, kb_tool

    assert [document.page_content for document in KBRetriever(kb=kb).invoke("refunds")] == [expected]
    assert kb_tool(kb).invoke({"query": "refunds", "top_k": None}) == expected


def llamaindex(kb: LocalKB, expected: str) -> None:
    from kb_llamaindex import KBRetriever, kb_tool

    assert [node.get_content() for node in KBRetriever(kb).retrieve("refunds")] == [expected]
    assert kb_tool(kb).call(query="refunds").content == expected


async def openai_agents(kb: LocalKB, expected: str) -> None:
    from agents.tool_context import ToolContext

    from kb_openai_agents import kb_tool

    tool = kb_tool(kb)
    arguments = json.dumps({"query": "refunds", "top_k": None})
    context = ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments=arguments)
    assert await tool.on_invoke_tool(context, arguments) == expected


if __name__ == "__main__":
    main()
