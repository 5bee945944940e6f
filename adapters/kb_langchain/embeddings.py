"""LangChain embeddings for a knowledge base."""

from langchain_core.embeddings import Embeddings

from kb_core.embedders import wrap_embedder
from kb_core.protocols import Embedder


def from_langchain(embeddings: Embeddings) -> Embedder:
    """Let a knowledge base embed with a LangChain embeddings object: `LocalKB("docs", embedder=from_langchain(e))`.

    The embedder's fingerprint is made of the object's class and model, so a knowledge base that was built with another
    model refuses it.

    Raises:
        TypeError: `embeddings` is no LangChain `Embeddings`.
    """
    if not isinstance(embeddings, Embeddings):
        raise TypeError(f"embeddings must be a LangChain Embeddings object, got {type(embeddings).__name__}")
    return wrap_embedder(embeddings)
