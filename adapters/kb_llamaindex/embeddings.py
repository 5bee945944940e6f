"""LlamaIndex embeddings for a knowledge base."""

from llama_index.core.base.embeddings.base import BaseEmbedding

from kb_core.embedders import wrap_embedder
from kb_core.protocols import Embedder


def from_llamaindex(embed_model: BaseEmbedding) -> Embedder:
    """Let a knowledge base embed with a LlamaIndex model: `LocalKB("docs", embedder=from_llamaindex(embed_model))`.

    The embedder's fingerprint is made of the model's class and name, so a knowledge base that was built with another
    model refuses it.

    Raises:
        TypeError: `embed_model` is no LlamaIndex `BaseEmbedding`.
    """
    if not isinstance(embed_model, BaseEmbedding):
        raise TypeError(f"embed_model must be a LlamaIndex BaseEmbedding object, got {type(embed_model).__name__}")
    return wrap_embedder(_Embeddings(embed_model))


class _Embeddings:
    """LlamaIndex's verbs by the names that the core knows."""

    def __init__(self, embed_model: BaseEmbedding) -> None:
        self.__wrapped__ = embed_model  # what the core names it after

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.__wrapped__.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.__wrapped__.get_query_embedding(text)
