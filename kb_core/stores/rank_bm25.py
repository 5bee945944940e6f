"""Keywords by the `rank-bm25` package: small, in memory, the reference that other stores are measured against."""

import threading
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from kb_core.analysis import Analyzer
from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.protocols import Hit, Selection, check_top_k
from kb_core.stores.bm25 import K1, B, best, idf, rounded

if TYPE_CHECKING:
    from rank_bm25 import BM25Okapi


class RankBM25KeywordStore:
    """BM25 over term lists in memory. See `KeywordStore`.

    A search costs time in proportion to the number of chunks, and the first one after a change rebuilds the index, also
    in proportion. Good for some thousand chunks; `TantivyKeywordStore` is for more. Nothing is kept on disk, so
    `revision` starts at 0 with each process.

    Args:
        analyzer: Turns chunks and queries into terms; None: an `Analyzer` for English.
    """

    def __init__(self, analyzer: Analyzer | None = None) -> None:
        self._analyzer = analyzer or Analyzer()
        self._lock = threading.RLock()
        self._terms: dict[str, list[str]] = {}
        self._index: tuple[list[str], BM25Okapi | None] | None = None
        self._revision = 0
        self._is_closed = False

    @property
    def revision(self) -> int:
        return self._revision

    def commit(self, revision: int) -> None:
        self._revision = revision

    def count(self) -> int:
        return len(self._terms)

    def clear(self) -> None:
        with self._lock:
            self._terms.clear()
            self._index = None
            self._revision = 0

    def close(self) -> None:
        self.clear()
        self._is_closed = True

    def upsert(self, chunks: Sequence[Chunk]) -> None:
        terms = {chunk.id: self._analyzer.terms(chunk.content) for chunk in chunks}
        with self._lock:
            self._check_open()
            self._terms.update(terms)
            self._index = None

    def delete(self, ids: Sequence[str]) -> None:
        with self._lock:
            self._check_open()
            for chunk_id in ids:
                self._terms.pop(chunk_id, None)
            self._index = None

    def search(self, query: str, top_k: int, *, within: Selection | None = None) -> list[Hit]:
        top_k = check_top_k(top_k)
        self._check_open()
        terms = self._analyzer.terms(query)
        ids, index = self._built()
        if index is None or not terms or not top_k:
            return []
        scores = index.get_scores(terms)
        is_hit = scores > 0
        hits = map(Hit, compress(ids, is_hit), map(rounded, scores[is_hit].tolist()))
        return best((hit for hit in hits if within is None or hit.id in within.ids), top_k)

    def _built(self) -> tuple[list[str], "BM25Okapi | None"]:
        """Give the ids and the index of the same moment; an index is never changed, only replaced."""
        with self._lock:
            if self._index is None:
                # rank-bm25 divides by the number of documents and by their average length.
                has_terms = any(self._terms.values())
                self._index = list(self._terms), _okapi(list(self._terms.values())) if has_terms else None
            return self._index

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the keyword store is closed; open another one")


def _okapi(corpus: list[list[str]]) -> "BM25Okapi":
    from rank_bm25 import BM25Okapi

    class PositiveOkapi(BM25Okapi):  # type: ignore[misc] # rank-bm25 ships no types
        """BM25Okapi, whose own idf is 0 for a term in half of the documents and a guess for one in more."""

        def _calc_idf(self, nd: dict[str, int]) -> None:
            self.idf: dict[str, Any] = {term: idf(self.corpus_size, doc_freq) for term, doc_freq in nd.items()}

    return PositiveOkapi(corpus, k1=K1, b=B)
