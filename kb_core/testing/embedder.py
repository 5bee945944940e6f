"""What every `Embedder` must do."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kb_core.protocols import Embedder
from kb_core.testing.suite import Suite

TEXTS = [
    "A return is possible within thirty days.",
    "The ferry to the island leaves at nine.",
    "Bake the bread for forty minutes.",
    "退货期限为三十天。",
    "Ein Ruecktritt ist binnen vierzehn Tagen moeglich.",
]


class EmbedderSuite(Suite):
    """Subclass with an `embedder` fixture."""

    @pytest.fixture
    def embedder(self) -> Any:
        """Give the embedder under test."""
        raise TypeError("a subclass of EmbedderSuite must have an `embedder` fixture")

    def test_it_has_the_shape_of_the_protocol(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        assert isinstance(embedder.fingerprint, str)
        assert embedder.fingerprint.strip()
        assert 0 <= embedder.default_alpha <= 1

    def test_each_text_gets_one_unit_vector_in_order(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == len(TEXTS)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        backwards = embedder.embed_documents(TEXTS[::-1])[::-1]
        # Not equal: a model that computes in low precision depends a little on what shares a batch with the text.
        assert (np.sum(vectors * backwards, axis=1) > 0.98).all()

    def test_a_query_is_one_unit_vector_of_the_same_dimension(self, embedder: Embedder) -> None:
        vector = embedder.embed_query(TEXTS[0])
        assert vector.dtype == np.float32
        assert vector.shape == embedder.embed_documents(TEXTS[:1])[0].shape
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)

    def test_a_text_is_nearest_to_itself_as_a_query(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents(TEXTS)
        for row, text in enumerate(TEXTS):
            assert np.argmax(vectors @ embedder.embed_query(text)) == row

    def test_a_repeated_text_has_the_same_vector(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents([TEXTS[0], TEXTS[1], TEXTS[0]])
        np.testing.assert_array_equal(vectors[0], vectors[2])

    def test_no_text_gives_no_row(self, embedder: Embedder) -> None:
        assert embedder.embed_documents([]).shape[0] == 0

    @pytest.mark.parametrize(
        "odd",
        [
            pytest.param("", id="empty"),
            pytest.param(" \n\t", id="blank"),
            pytest.param("\x00", id="nul"),
            pytest.param("\ud800", id="half a surrogate pair"),
            pytest.param("😀", id="emoji"),
            pytest.param("\u200b", id="zero width"),
            pytest.param("a" * 20_000, id="long"),
        ],
    )
    def test_odd_text_gives_a_finite_row_of_length_one_or_zero(self, embedder: Embedder, odd: str) -> None:
        vectors = embedder.embed_documents([TEXTS[0], odd])
        assert np.isfinite(vectors).all()
        length = np.linalg.norm(vectors[1])
        assert length == 0 or length == pytest.approx(1, abs=1e-5)
        assert embedder.embed_query(odd).shape == vectors[0].shape

    @pytest.mark.parametrize("texts", [[None, "x"], ["x", 3], "one string", [["x"]]])
    def test_what_is_no_list_of_text_is_refused(self, embedder: Embedder, texts: Any) -> None:
        with pytest.raises(TypeError, match="list of str"):
            embedder.embed_documents(texts)

    def test_a_query_that_is_no_text_is_refused(self, embedder: Embedder) -> None:
        with pytest.raises(TypeError, match="str"):
            embedder.embed_query(None)  # type: ignore[arg-type]

    def test_many_threads_get_what_one_gets(self, embedder: Embedder) -> None:
        alone = embedder.embed_documents(TEXTS)
        with ThreadPoolExecutor(8) as pool:
            for together in pool.map(embedder.embed_documents, [TEXTS] * 16):
                assert (np.sum(alone * together, axis=1) > 0.98).all()

    def test_its_fingerprint_does_not_depend_on_what_it_embedded(self, embedder: Embedder) -> None:
        before = embedder.fingerprint
        embedder.embed_documents(TEXTS)
        assert embedder.fingerprint == before

    def test_its_config_is_json_and_builds_it_again(self, embedder: Embedder) -> None:
        if not hasattr(embedder, "config") or embedder.config()["class"] == "WrappedEmbedder":
            pytest.skip("an embedder of your own is passed in at every start")
        from kb_core.embedders import embedder_from_config

        rebuilt = embedder_from_config(json.loads(json.dumps(embedder.config())))
        assert rebuilt.fingerprint == embedder.fingerprint
