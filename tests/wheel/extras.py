"""Run with the wheel and all its extras, away from the sources: every adapter answers."""

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder


def main() -> None:
    from kb_langchain import KBRetriever, kb_tool

    with LocalKB("wheel", persist=False, embedder=StaticEmbedder()) as kb:
        kb.add_text("Refunds are paid within 30 days.", source="policy.md")
        expected = kb.as_tool().call("refunds")
        assert [document.page_content for document in KBRetriever(kb=kb).invoke("refunds")] == [expected]
        assert kb_tool(kb).invoke({"query": "refunds"}) == expected
    print("the adapters in the wheel work")


if __name__ == "__main__":
    main()
