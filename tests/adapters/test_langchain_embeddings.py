"""from_langchain: embeddings of LangChain in a knowledge base."""

from pathlib import Path

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from kb_core import EmbedderError, EmbedderMismatchError, LocalKB
from kb_core.embedders import StaticEmbedder
from kb_core.protocols import Embedder
from kb_langchain import from_langchain


class StaticEmbeddings(Embeddings):
    """Real vectors behind LangChain's interface; not normalised, as many are not."""

    def __init__(self, model: str = "static") -> None:
        self.model = model
        self._embedder = StaticEmbedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return (3 * self._embedder.embed_documents(texts)).tolist()

    def embed_query(self, text: str) -> list[float]:
        return (3 * self._embedder.embed_query(text)).tolist()


def test_it_is_an_embedder_with_unit_vectors() -> None:
    embedder = from_langchain(StaticEmbeddings())
    assert isinstance(embedder, Embedder)
    vectors = embedder.embed_documents(["a warm sleeping bag", "", "a rain jacket"])
    assert (vectors.shape, vectors.dtype) == ((3, 256), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("a rain jacket"), vectors[2], atol=1e-6)


def test_a_knowledge_base_finds_by_meaning_with_it() -> None:
    with LocalKB("docs", persist=False, embedder=from_langchain(StaticEmbeddings()), search_type="vector") as kb:
        kb.add_text("The dog barked at the postman.", source="dog")
        kb.add_text("Interest rates were raised by the central bank.", source="bank")
        assert kb.search("money and finance", 1)[0].chunk.metadata["source"] == "bank"
        assert kb.search("a puppy", 1)[0].chunk.metadata["source"] == "dog"


def test_the_fingerprint_names_class_model_and_dimension() -> None:
    fingerprint = from_langchain(StaticEmbeddings("small")).fingerprint
    assert all(part in fingerprint for part in ("StaticEmbeddings", "small", "256"))
    assert fingerprint == from_langchain(StaticEmbeddings("small")).fingerprint
    others = [
        from_langchain(StaticEmbeddings("large")),
        from_langchain(DeterministicFakeEmbedding(size=256)),
        from_langchain(DeterministicFakeEmbedding(size=64)),
    ]
    assert len({fingerprint, *(other.fingerprint for other in others)}) == 4


def test_another_model_of_equal_dimension_is_refused_when_reopened(tmp_path: Path) -> None:
    with LocalKB("docs", path=tmp_path, embedder=from_langchain(StaticEmbeddings("small"))) as kb:
        kb.add_text("A tent for two people.")
    with LocalKB("docs", path=tmp_path, embedder=from_langchain(StaticEmbeddings("small"))) as kb:
        assert len(kb.search("tent")) == 1
    with pytest.raises(EmbedderMismatchError, match="large"):
        LocalKB("docs", path=tmp_path, embedder=from_langchain(StaticEmbeddings("large"))).search("tent")


def test_a_failing_model_is_an_embedder_error_that_repeats_no_text() -> None:
    class Failing(StaticEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            raise ConnectionError(f"no route for {text}")

    with pytest.raises(EmbedderError, match="Failing failed") as caught:
        from_langchain(Failing()).embed_query("my secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("given", ["bge-small", None, StaticEmbeddings, StaticEmbedder()])
def test_anything_but_langchain_embeddings_is_a_type_error(given: object) -> None:
    with pytest.raises(TypeError, match="must be a LangChain Embeddings object, got"):
        from_langchain(given)  # type: ignore[arg-type]
