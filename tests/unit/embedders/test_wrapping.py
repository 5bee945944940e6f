from collections.abc import Iterator

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from kb_core.embedders import (
    HashingEmbedder,
    InvalidVectorError,
    WrappedEmbedder,
    embedder_from_config,
    wrap_embedder,
)
from kb_core.errors import EmbedderError, EmbedderMismatchError, EmbedderUnavailableError
from kb_core.protocols import Embedder


class OnlyEmbed:
    """What many people have: one method, lists in and out."""

    def __init__(self, dimension: int = 3) -> None:
        self.width = dimension
        self.calls: list[list[str]] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(texts)
        return [[float(len(text)), 2.0, *[0.0] * (self.width - 2)] for text in texts]


def test_an_object_with_only_embed_keeps_the_contract() -> None:
    embedder = wrap_embedder(OnlyEmbed())
    assert isinstance(embedder, Embedder)
    vectors = embedder.embed_documents(["a", "four"])
    # [1, 2, 0] and [4, 2, 0] at unit length.
    np.testing.assert_allclose(vectors, [[5**-0.5, 2 * 5**-0.5, 0], [4 * 20**-0.5, 2 * 20**-0.5, 0]], atol=1e-6)
    np.testing.assert_array_equal(embedder.embed_query("a"), vectors[0])
    assert embedder.default_alpha == 0.7


def test_langchain_embeddings_are_taken_as_they_are() -> None:
    embedder = wrap_embedder(DeterministicFakeEmbedding(size=8))
    assert embedder.embed_documents(["a", "b"]).shape == (2, 8)
    assert embedder.fingerprint.startswith(
        "langchain_core.embeddings.fake.DeterministicFakeEmbedding(model=None, dimension=8"
    )


def test_a_function_will_do() -> None:
    def embed(texts: list[str]) -> Iterator[np.ndarray]:
        yield from (np.array([1.0, len(text)], np.float16) for text in texts)

    embedder = wrap_embedder(embed)
    assert embedder.embed_documents(["a", "b"]).dtype == np.float32
    assert "test_a_function_will_do.<locals>.embed" in embedder.fingerprint


def test_our_own_and_wrapped_embedders_come_back_as_they_are() -> None:
    own = HashingEmbedder()
    assert wrap_embedder(own) is own
    wrapped = wrap_embedder(OnlyEmbed())
    assert wrap_embedder(wrapped) is wrapped


def test_an_embedder_of_the_full_shape_is_checked_too() -> None:
    class Full(HashingEmbedder):
        def embed_documents(self, texts: list[str]) -> np.ndarray:
            return np.full((len(texts), self.dimension), np.nan, np.float32)

    with pytest.raises(InvalidVectorError, match="not finite for text 0"):
        wrap_embedder(Full()).embed_documents(["a"])


@pytest.mark.parametrize("thing", [3, "text-embedding-3-small", None, object(), [1]])
def test_what_cannot_embed_is_refused_with_what_is_needed(thing: object) -> None:
    with pytest.raises(TypeError, match=r"embedder must have embed_documents.*got " + type(thing).__name__):
        wrap_embedder(thing)


def test_half_an_embedder_and_a_class_are_refused() -> None:
    class Half:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] for _ in texts]

    with pytest.raises(TypeError, match="got Half; it has only one of embed_documents and embed_query"):
        wrap_embedder(Half())
    with pytest.raises(TypeError, match=r"got the class OnlyEmbed; create one: OnlyEmbed\(\)"):
        wrap_embedder(OnlyEmbed)


def test_wrapping_embeds_nothing_and_blank_or_repeated_texts_are_not_passed_on() -> None:
    inner = OnlyEmbed()
    embedder = wrap_embedder(inner)
    assert inner.calls == []
    vectors = embedder.embed_documents(["a", " ", "a", ""])
    assert inner.calls == [["a"]]
    assert not vectors[[1, 3]].any()
    assert embedder.embed_documents([]).shape[0] == 0


def test_the_fingerprint_tells_class_model_and_dimension() -> None:
    class Named(OnlyEmbed):
        model = "one"

    one = Named()
    other = Named()
    other.model = "other"
    prints = {wrap_embedder(e).fingerprint for e in (OnlyEmbed(), OnlyEmbed(4), one, other, Named(5))}
    assert len(prints) == 5
    assert wrap_embedder(Named()).fingerprint == wrap_embedder(one).fingerprint


def test_the_objects_own_word_wins() -> None:
    class Own(OnlyEmbed):
        fingerprint = "mine"
        default_alpha = 0.5
        dimension = 3
        n_truncated = 7

    inner = Own()
    embedder = wrap_embedder(inner)
    assert isinstance(embedder, WrappedEmbedder)
    assert (embedder.fingerprint, embedder.default_alpha, embedder.dimension, embedder.n_truncated) == (
        "mine",
        0.5,
        3,
        7,
    )
    assert inner.calls == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([[1.0, 2.0]], "returned 1 vectors for 2 texts"),
        ([[1.0], [1.0], [1.0]], "returned 3 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "different dimensions: 1, 2"),
        ([1.0, 2.0], r"must return vectors of shape \(n, d\), got \(2,\)"),
        ([[], []], r"must return vectors of shape \(n, d\), got \(2, 0\)"),
        ([[1.0, 2.0], [float("nan"), 1.0]], "not finite for text 1 of 2"),
        ([[float("inf"), 2.0], [0.0, 1.0]], "not finite for text 0 of 2"),
        ([[1.0, None], [1.0, 2.0]], "not finite for text 0 of 2"),
        ([["a"], ["b"]], "must return vectors of numbers"),
        (None, "must return a list of vectors, got NoneType"),
        ({"data": []}, "must return a list of vectors, got dict"),
        (3, "must return vectors of numbers"),
    ],
)
def test_what_is_not_a_vector_a_text_is_refused(returned: object, message: str) -> None:
    with pytest.raises(EmbedderError, match=message):
        wrap_embedder(lambda _: returned).embed_documents(["a", "b"])


def test_another_dimension_than_before_is_refused() -> None:
    inner = OnlyEmbed()
    embedder = wrap_embedder(inner)
    embedder.embed_documents(["a"])
    inner.width = 4
    with pytest.raises(EmbedderError, match="must return vectors of dimension 3, got 4"):
        embedder.embed_query("a")


def test_a_dimension_taken_for_granted_is_refuted_by_the_first_vector() -> None:
    wrapped = wrap_embedder(OnlyEmbed())
    assert isinstance(wrapped, WrappedEmbedder)
    assert not wrapped.is_fingerprint_known
    wrapped.expect_dimension(4)
    assert wrapped.is_fingerprint_known
    assert "dimension=4" in wrapped.fingerprint
    with pytest.raises(EmbedderMismatchError, match=r"holds vectors of dimension 4, and .*OnlyEmbed gives 3"):
        wrapped.embed_query("a")


def test_what_the_object_raises_is_an_embedder_error_that_quotes_nothing() -> None:
    def embed(_: list[str]) -> list[list[float]]:
        raise RuntimeError("key sk-1 and the document")

    with pytest.raises(EmbedderError, match=r"failed on 2 texts: RuntimeError$") as caught:
        wrap_embedder(embed).embed_documents(["a", "b"])
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_async_function_is_refused_with_what_to_do() -> None:
    async def embed(_: list[str]) -> list[list[float]]:
        return []

    with pytest.raises(EmbedderError, match="must embed synchronously, got a coroutine"):
        wrap_embedder(embed).embed_documents(["a"])


def test_its_config_says_that_only_the_user_can_build_it() -> None:
    wrapped = wrap_embedder(OnlyEmbed())
    assert isinstance(wrapped, WrappedEmbedder)
    with pytest.raises(EmbedderUnavailableError, match=r"an embedder of yours, .*OnlyEmbed; pass that as embedder="):
        embedder_from_config(wrapped.config())
