"""A question answered by a chain of LangChain's: retriever, prompt, model. Offline unless you name a model.

Run it: python examples/langchain_chain.py
With a real model: pip install langchain langchain-openai; KB_MODEL=openai:gpt-5-mini python examples/langchain_chain.py
"""

import os
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel, SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder
from kb_langchain import KBRetriever, kb_tool

CORPUS = Path(__file__).parent / "corpus"
PROMPT = ChatPromptTemplate.from_template("Answer from these passages alone.\n\n{passages}\n\nQuestion: {question}")


class QuotingModel(SimpleChatModel):
    """Stands in for a language model: it quotes the best passage of its prompt."""

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        best = str(messages[-1].content).split("\n\n[Score: ")[1]
        return best.partition("] ")[2]

    @property
    def _llm_type(self) -> str:
        return "quoting"


def chat_model() -> BaseChatModel:
    if "KB_MODEL" not in os.environ:
        return QuotingModel()
    from langchain.chat_models import init_chat_model

    return init_chat_model(os.environ["KB_MODEL"])


def main() -> None:
    with LocalKB("shop", embedder=StaticEmbedder(), chunk_size=256, chunk_overlap=0, persist=False) as kb:
        kb.add(CORPUS)
        passages = KBRetriever(kb=kb, top_k=3) | (lambda found: "\n\n".join(passage.page_content for passage in found))
        chain = {"passages": passages, "question": RunnablePassthrough()} | PROMPT | chat_model() | StrOutputParser()
        print(chain.invoke("how long are invoices kept?"))
        # For an agent the same search is a tool. The model reads the text; the program gets the hits, for citations.
        tool = kb_tool(kb, where={"category": "tents"})
        found = tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": "tent for snow"}})
        print(f"\n{found.content}\n\n{[hit['metadata']['title'] for hit in found.artifact]}")


if __name__ == "__main__":
    main()
