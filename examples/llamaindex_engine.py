"""A question answered by a query engine of LlamaIndex's: retriever, prompt, model. Offline unless you name a model.

Run it: python examples/llamaindex_engine.py
With a real model: pip install llama-index-llms-openai; KB_MODEL=gpt-5-mini python examples/llamaindex_engine.py
"""

import os
from pathlib import Path
from typing import Any

from llama_index.core.llms import LLM, CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder
from kb_llamaindex import KBRetriever, kb_tool

CORPUS = Path(__file__).parent / "corpus"
TENTS = MetadataFilters(filters=[MetadataFilter(key="category", value="tents")])


class QuotingModel(CustomLLM):
    """Stands in for a language model: it quotes the best passage of its prompt."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="quoting")

    def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
        best = prompt.split("[Score: ")[1].partition("] ")[2]
        return CompletionResponse(text=best.strip())

    def stream_complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponseGen:
        yield self.complete(prompt)


def language_model() -> LLM:
    if "KB_MODEL" not in os.environ:
        return QuotingModel()
    from llama_index.llms.openai import OpenAI

    return OpenAI(os.environ["KB_MODEL"])


def main() -> None:
    with LocalKB("shop", embedder=StaticEmbedder(), chunk_size=256, chunk_overlap=0, persist=False) as kb:
        kb.add(CORPUS)
        engine = RetrieverQueryEngine.from_args(KBRetriever(kb, top_k=3), llm=language_model())
        answer = engine.query("how long are invoices kept?")
        print(f"{answer}\n\n{[Path(node.metadata['source']).name for node in answer.source_nodes]}")
        # For an agent the same search is a tool. The model reads the text; the program gets the hits, for citations.
        found = kb_tool(kb, filters=TENTS).call(query="tent for snow")
        print(f"\n{found.content}\n\n{[hit['metadata']['title'] for hit in found.raw_output]}")


if __name__ == "__main__":
    main()
