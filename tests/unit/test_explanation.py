"""How a score came about."""

import pytest

from kb_core.documents import Chunk, SearchResult
from kb_core.explanation import explanations
from kb_core.fusion import fuse
from kb_core.protocols import Hit

TEXTS = (
    "Unused items can be sent back within thirty days.",
    "Parcels to Norway take five working days.",
    "The key has expired.",
    "Items on sale can be sent back like all others.",
    "Days of rest are Saturday and Sunday.",
)


def results_of(candidates):
    return [
        SearchResult(
            chunk=Chunk(id=it.id, document_id="d", content=it.id),
            score=it.score,
            score_type=it.score_type,
            vector_score=it.vector_score,
            keyword_score=it.keyword_score,
        )
        for it in candidates
    ]


def test_min_max_by_hand():
    # Cosines 0.9, 0.5, 0.1 become 1, 0.5, 0; BM25 4 and 2 become 1 and 0; what a list lacks counts 0.
    # So with alpha 0.7 chunk b has 0.7 times 0.5, that is 0.35, and 0.3 times 1.
    vector = [Hit("a", 0.9), Hit("b", 0.5), Hit("c", 0.1)]
    keyword = [Hit("b", 4.0), Hit("d", 2.0)]
    candidates = fuse("minmax", vector, keyword, 0.7)
    found = {
        it.result.chunk.id: it for it in explanations(results_of(candidates), candidates, fusion="minmax", alpha=0.7)
    }
    assert (found["a"].vector.normalised, found["a"].keyword.normalised) == (1, 0)
    assert (found["b"].vector.normalised, found["b"].keyword.normalised) == (pytest.approx(0.5), 1)
    assert [found["a"].keyword.is_candidate, found["d"].vector.is_candidate, found["d"].keyword.is_candidate] == [
        False,
        False,
        True,
    ]
    assert found["b"].vector.contribution == pytest.approx(0.35)
    assert found["b"].keyword.contribution == pytest.approx(0.3)
    assert found["b"].result.score == pytest.approx(0.65)


def test_what_one_matcher_found_alone_is_not_fused():
    candidates = fuse("minmax", [Hit("a", 0.9), Hit("b", 0.5)], [], 0.7)
    for it in explanations(results_of(candidates), candidates, fusion="minmax", alpha=0.7):
        assert (it.fusion, it.vector, it.keyword) == (None, None, None)


@pytest.mark.parametrize("fusion", ["minmax", "rrf", "dbsf"])
def test_the_contributions_add_up_to_the_very_score_of_a_search(make_kb, fusion):
    kb = make_kb(fusion=fusion, embedder=lambda texts: [[1.0, len(text) % 7, text.count("s")] for text in texts])
    for number, text in enumerate(TEXTS):
        kb.add_text(text, source=str(number))
    query = "how many days until items are sent back?"
    explained = kb.explain(query, 4, alpha=0.6)
    assert [it.result for it in explained] == kb.search(query, 4, alpha=0.6)
    assert len(explained) == 4
    for it in explained:
        assert it.fusion == fusion
        assert it.vector.contribution + it.keyword.contribution == it.result.score
        assert it.vector.weight == 0.6


async def test_the_awaitable_twin_explains_alike(make_kb):
    kb = make_kb(embedder=lambda texts: [[1.0, len(text)] for text in texts])
    kb.add_text("some text", source="a")
    assert await kb.aexplain("some text") == kb.explain("some text")
