"""from_llamaindex: embedding models of LlamaIndex in a knowledge base."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import MockEmbedding
from pydantic import PrivateAttr

from kb_core import EmbedderError, EmbedderMismatchError, LocalKB
from kb_core.embedders import StaticEmbedder
from kb_core.protocols import Embedder
from kb_llamaindex import from_llamaindex


class StaticEmbedding(BaseEmbedding):
    """Real vectors behind LlamaIndex's interface; not normalised, as many are not."""

    _embedder: StaticEmbedder = PrivateAttr(default_factory=StaticEmbedder)
    _batches: list[int] = PrivateAttr(default_factory=list)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._batches.append(len(texts))
        return (3 * self._embedder.embed_documents(texts)).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return (3 * self._embedder.embed_query(query)).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def test_it_is_an_embedder_with_unit_vectors() -> None:
    embedder = from_llamaindex(StaticEmbedding())
    assert isinstance(embedder, Embedder)
    vectors = embedder.embed_documents(["a warm sleeping bag", "", "a rain jacket"])
    assert (vectors.shape, vectors.dtype) == ((3, 256), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("a rain jacket"), vectors[2], atol=1e-6)


def test_texts_go_to_the_model_in_its_own_batches() -> None:
    model = StaticEmbedding(embed_batch_size=4)
    from_llamaindex(model).embed_documents([f"tent number {number}" for number in range(10)])
    assert model._batches == [4, 4, 2]


def test_a_knowledge_base_finds_by_meaning_with_it() -> None:
    with LocalKB("docs", persist=False, embedder=from_llamaindex(StaticEmbedding()), search_type="vector") as kb:
        kb.add_text("The dog barked at the postman.", source="dog")
        kb.add_text("Interest rates were raised by the central bank.", source="bank")
        assert kb.search("money and finance", 1)[0].chunk.metadata["source"] == "bank"
        assert kb.search("a puppy", 1)[0].chunk.metadata["source"] == "dog"


def test_the_fingerprint_names_class_model_and_dimension() -> None:
    fingerprint = from_llamaindex(StaticEmbedding(model_name="small")).fingerprint
    assert all(part in fingerprint for part in ("StaticEmbedding", "small", "256"))
    assert fingerprint == from_llamaindex(StaticEmbedding(model_name="small")).fingerprint
    others = [
        from_llamaindex(StaticEmbedding(model_name="large")),
        from_llamaindex(MockEmbedding(embed_dim=256)),
        from_llamaindex(MockEmbedding(embed_dim=64)),
    ]
    assert len({fingerprint, *(other.fingerprint for other in others)}) == 4


def test_another_model_of_equal_dimension_is_refused_when_reopened(tmp_path: Path) -> None:
    def embedder(model_name: str) -> Embedder:
        return from_llamaindex(StaticEmbedding(model_name=model_name))

    with LocalKB("docs", path=tmp_path, embedder=embedder("small")) as kb:
        kb.add_text("A tent for two people.")
    with LocalKB("docs", path=tmp_path, embedder=embedder("small")) as kb:
        assert len(kb.search("tent")) == 1
    with pytest.raises(EmbedderMismatchError, match="large"):
        LocalKB("docs", path=tmp_path, embedder=embedder("large")).search("tent")


def test_a_failing_model_is_an_embedder_error_that_names_it_and_repeats_no_text() -> None:
    class Failing(StaticEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            raise ConnectionError(f"no route for {query}")

    with pytest.raises(EmbedderError, match="Failing failed") as caught:
        from_llamaindex(Failing()).embed_query("my secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("given", ["local:bge-small", None, StaticEmbedding, StaticEmbedder()])
def test_anything_but_a_llamaindex_model_is_a_type_error(given: Any) -> None:
    with pytest.raises(TypeError, match="must be a LlamaIndex BaseEmbedding object, got"):
        from_llamaindex(given)
