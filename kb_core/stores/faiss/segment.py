"""A segment: rows that never change, searched by one rule whatever its index."""

from collections.abc import Iterator

import numpy as np

from kb_core.protocols import Vectors
from kb_core.stores.faiss.engine import Found, scan
from kb_core.stores.faiss.ids import IdTable
from kb_core.stores.faiss.index import CandidateIndex, IndexType, is_small
from kb_core.stores.faiss.recall import TOP
from kb_core.stores.faiss.rows import Rows, RowSet, best, cosines

_MAX_GATHERED = 4_096  # rows: copying so few costs less than a pass over the bitmap of a large segment
_SCAN_SLACK = 1e-5  # FAISS and `cosines` add up in different orders
_SCAN_EXTRA = 22  # candidates past k, so that ties at the cut seldom need a second scan
_WIDEN = 8


class Segment:
    """Immutable unit vectors with their ids, ascending, so that a tie goes to the smaller row.

    Args:
        vectors: Unit float32, (n, d), C-contiguous, in memory or mapped.
        ids: n ids.
        index: Finds candidates; None: they are found by an exact scan.
        index_type: What the store was asked for when the segment was written.
    """

    def __init__(self, vectors: Vectors, ids: IdTable, index: CandidateIndex | None, index_type: IndexType) -> None:
        self.vectors = vectors
        self.ids = ids
        self.index = index
        self.index_type = index_type

    def __len__(self) -> int:
        return self.ids.n

    def search(self, query: Vectors, k: int, eligible: RowSet) -> tuple[Rows, Vectors]:
        """Find the `k` best eligible rows for a unit query (d,), ties by row: as many as there are, up to `k`.

        Candidates are scored again by `cosines`. The answer stands once the last of the `k` is better than anything
        that was not fetched can be; else more are fetched, and in the end all are scored. So equal scores at the cut
        are told apart by id, and deleted or filtered rows never leave too few.
        """
        k = min(k, eligible.size)
        if k == 0:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        if eligible.size > max(_MAX_GATHERED, _WIDEN * k):
            for rows, scores, ceiling in self._attempts(query, k, eligible):
                top, top_scores = best(scores, rows, k)
                if top.size == k and top_scores[-1] > ceiling:
                    return top, top_scores
        return self._score_all(query, k, eligible)

    def _attempts(self, query: Vectors, k: int, eligible: RowSet) -> Iterator[tuple[Rows, Vectors, float]]:
        """Yield eligible candidates, their scores, and what the others score at most; ever more of them."""
        n = len(self)
        # Where a filter leaves little, a scan of just that costs less than fetching much and dropping most of it.
        if self.index is not None and (2 * eligible.size > n or not is_small(eligible.size, query.size)):
            tuning = self.index.tuning
            for m in _widths(int(tuning.depth * max(1.0, k / TOP) * n / eligible.size), n):
                yield self._candidates(self.index.fetch(query, m), query, eligible, m, tuning.slack)
        bits = None if eligible.size == n else eligible.bits
        for m in _widths(k + _SCAN_EXTRA, eligible.size):
            yield self._candidates(scan(self.vectors, query, m, bits), query, eligible, m, _SCAN_SLACK)

    def _candidates(
        self, found: Found, query: Vectors, eligible: RowSet, m: int, slack: float
    ) -> tuple[Rows, Vectors, float]:
        rows, approximate = found
        # Fewer than asked for: a graph that ran dry, which says nothing about the rows that it did not reach.
        ceiling = float(approximate[-1]) + slack if rows.size == m else np.inf
        if eligible.size < len(self):
            rows = rows[eligible.has(rows)]
        return rows, cosines(self.vectors[rows], query), ceiling

    def _score_all(self, query: Vectors, k: int, eligible: RowSet) -> tuple[Rows, Vectors]:
        if eligible.size == len(self):
            return best(cosines(self.vectors, query), np.arange(len(self)), k)
        rows = eligible.rows(len(self))
        is_sparse = rows.size <= _MAX_GATHERED or 4 * rows.size < len(self)
        scores = cosines(self.vectors[rows], query) if is_sparse else cosines(self.vectors, query)[rows]
        return best(scores, rows, k)


def _widths(m: int, n: int) -> list[int]:
    """How many candidates to fetch, in turn; not where that is so many that scoring all costs less."""
    return [width for width in (m, _WIDEN * m) if width <= n // _WIDEN]
