"""A search whose vector matcher looks for something else than the query: texts, or a vector."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kb_core import EmbedderError, LocalKB
from kb_core.embedders import HashingEmbedder, StaticEmbedder


@pytest.fixture(scope="module")
def kb() -> Iterator[LocalKB]:
    with LocalKB("animals", persist=False, embedder=StaticEmbedder()) as made:
        made.add_text("The dog barked at the postman.", source="dog")
        made.add_text("Interest rates were raised by the central bank.", source="bank")
        made.add_text("The kitchen oven was too hot for the cake.", source="cake")
        yield made


def found(kb: LocalKB, query: str, **options: Any) -> list[tuple[str, float]]:
    return [(hit.chunk.metadata["source"], hit.score) for hit in kb.search(query, **options)]


async def test_one_text_in_place_of_the_query_is_a_search_for_that_text(kb: LocalKB) -> None:
    expected = found(kb, "money and finance", search_type="vector")
    assert expected[0][0] == "bank"
    assert found(kb, "a puppy", search_type="vector", vector_query=["money and finance"]) == expected
    hits = await kb.asearch("a puppy", search_type="vector", vector_query=["money and finance"])
    assert [(hit.chunk.metadata["source"], hit.score) for hit in hits] == expected


def test_several_texts_count_as_the_mean_of_their_vectors(kb: LocalKB) -> None:
    texts = ["a puppy", "money and finance", "a puppy"]
    mean = np.mean([StaticEmbedder().embed_query(text) for text in texts], axis=0)
    by_text = dict(found(kb, "x", search_type="vector", vector_query=texts))
    assert by_text == pytest.approx(dict(found(kb, "x", search_type="vector", vector_query=(7 * mean).tolist())))
    assert list(by_text) == ["dog", "bank", "cake"]


@pytest.mark.parametrize("shape", [list, tuple, np.asarray, lambda vector: vector.astype(np.float64)], ids=str)
def test_a_vector_may_be_any_sequence_of_numbers(kb: LocalKB, shape: Any) -> None:
    vector = StaticEmbedder().embed_query("money and finance")
    by_vector = found(kb, "a puppy", search_type="vector", vector_query=shape(vector))
    assert by_vector == found(kb, "money and finance", search_type="vector")


def test_the_keyword_matcher_and_the_filter_know_nothing_of_it(kb: LocalKB) -> None:
    hits = {hit.chunk.metadata["source"]: hit for hit in kb.search("postman", vector_query=["money and finance"])}
    assert hits["dog"].keyword_score == kb.search("postman")[0].keyword_score
    assert hits["bank"].vector_score > hits["dog"].vector_score
    assert found(kb, "postman", search_type="keyword", vector_query=["money"]) == found(
        kb, "postman", search_type="keyword"
    )
    assert [source for source, _ in found(kb, "x", where={"source": "cake"}, vector_query=["money"])] == ["cake"]


def test_a_blank_query_beside_it_is_a_search_by_vector_alone(kb: LocalKB) -> None:
    hits = kb.search("", vector_query=["money and finance"])
    assert [hit.score_type for hit in hits] == ["cosine"] * 3
    assert hits[0].chunk.metadata["source"] == "bank"


def test_blank_texts_match_nothing_by_vector(kb: LocalKB) -> None:
    assert [score for _, score in found(kb, "x", search_type="vector", vector_query=["", " "])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ("money", TypeError, "list of texts or one vector, got str"),
        (7, TypeError, "got int"),
        ([], TypeError, "list of texts or one vector"),
        (["money", 1.0], TypeError, "texts alone or numbers alone"),
        ([None], ValueError, "finite"),
        ([[0.5] * 256], ValueError, r"one vector of finite numbers, got the shape \(1, 256\)"),
        ([float("nan")] * 256, ValueError, "finite"),
        ([0.5] * 8, ValueError, "256"),
    ],
    ids=str,
)
def test_anything_else_is_an_error_that_says_what_is_right(
    kb: LocalKB, given: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        kb.search("a puppy", vector_query=given)


def test_the_embedder_is_asked_for_the_texts_and_not_for_the_query() -> None:
    class Asked(HashingEmbedder):
        asked: list[str] = []  # noqa: RUF012  # one object

        def embed_query(self, text: str) -> Any:
            self.asked.append(text)
            if text == "query":
                raise EmbedderError("not this one")
            return super().embed_query(text)

    embedder = Asked()
    with LocalKB("asked", persist=False, embedder=embedder) as made:
        made.add_text("A tent.")
        made.search("query", vector_query=["one", "two"])
    assert sorted(embedder.asked) == ["one", "two"]
