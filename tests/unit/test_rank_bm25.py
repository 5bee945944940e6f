"""RankBM25KeywordStore beyond the common suite."""

import pytest

from kb_core.analysis import Analyzer
from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.stores.rank_bm25 import RankBM25KeywordStore


def _chunks(**texts: str) -> list[Chunk]:
    return [Chunk(id=each, document_id="d", content=text) for each, text in texts.items()]


def test_a_corpus_of_stop_words_only_is_searched_without_a_division_by_zero() -> None:
    store = RankBM25KeywordStore()
    store.upsert(_chunks(a="the of a", b=""))
    assert store.search("apple", 5) == []
    assert store.count() == 2


def test_chunks_without_terms_count_in_the_average_length() -> None:
    store = RankBM25KeywordStore()
    store.upsert(_chunks(a="apple"))
    alone = store.search("apple", 1)[0].score
    store.upsert(_chunks(b=""))
    assert store.search("apple", 1)[0].score != alone


def test_the_index_is_rebuilt_only_after_a_change() -> None:
    store = RankBM25KeywordStore()
    store.upsert(_chunks(a="apple"))
    store.search("apple", 1)
    index = store._index
    store.search("apple", 1)
    assert store._index is index
    store.delete(["a"])
    assert store.search("apple", 1) == []


def test_it_uses_the_analyzer_that_it_is_given() -> None:
    store = RankBM25KeywordStore(Analyzer(None))
    store.upsert(_chunks(a="policies"))
    assert store.search("policy", 1) == []
    assert [hit.id for hit in store.search("the policies", 1)] == ["a"]


def test_closed_it_says_so() -> None:
    store = RankBM25KeywordStore()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.search("apple", 1)
    with pytest.raises(StoreError, match="closed"):
        store.upsert(_chunks(a="apple"))
