"""The tail: vectors that are in no segment yet, in memory, scanned exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kb_core.protocols import Hit, Vectors
from kb_core.stores.faiss.rows import cosines

_MIN_CAPACITY = 256  # rows


@dataclass(frozen=True)
class TailView:
    """The tail as it was at one moment.

    Attributes:
        vectors: Unit float32, (n, d).
        ids: At least n ids, by row; rows are only ever appended, so that the list can be shared.
        alive: (n,): rows that have not been deleted or superseded.
    """

    vectors: Vectors
    ids: Sequence[str]
    alive: NDArray[np.bool_]

    def search(self, query: Vectors, k: int, within: frozenset[str] | None) -> list[Hit]:
        """Find the `k` best for a unit query; see `VectorStore.search`. Exact, O(n d)."""
        rows = np.flatnonzero(self.alive)
        if within is not None:
            rows = np.array([row for row in rows.tolist() if self.ids[row] in within], dtype=np.int64)
        if not rows.size:
            return []
        # Gathering copies, which costs more than scoring: score everything unless little of it is wanted.
        is_dense = 4 * rows.size > len(self.vectors)
        scores = cosines(self.vectors, query)[rows] if is_dense else cosines(self.vectors[rows], query)
        if k < rows.size:
            kept = np.flatnonzero(scores >= np.partition(scores, rows.size - k)[rows.size - k])
            rows, scores = rows[kept], scores[kept]
        hits = [Hit(self.ids[row], score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:k]


class Tail:
    """A growing matrix of vectors by id. Not for several threads at once: the store's lock guards it.

    Args:
        dimension: Of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._vectors = np.empty((_MIN_CAPACITY, dimension), dtype=np.float32)
        self._alive = np.zeros(_MIN_CAPACITY, dtype=bool)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def upsert(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Append unit rows (len(ids), d); the last one of an id counts. Amortised O(len(ids) d)."""
        if len(self._ids) > 2 * len(self._rows) + _MIN_CAPACITY:
            self._compact()
        start = len(self._ids)
        end = start + len(ids)
        self._reserve(end)
        self._vectors[start:end] = vectors
        self._alive[start:end] = True
        self._ids.extend(ids)
        for row, chunk_id in enumerate(ids, start):
            former = self._rows.get(chunk_id)
            if former is not None:
                self._alive[former] = False
            self._rows[chunk_id] = row

    def delete(self, ids: Sequence[str]) -> None:
        """Remove ids; unknown ones are ignored."""
        for chunk_id in ids:
            row = self._rows.pop(chunk_id, None)
            if row is not None:
                self._alive[row] = False

    def view(self) -> TailView:
        """Give the tail as it is now; later writes do not show in it."""
        n = len(self._ids)
        return TailView(self._vectors[:n], self._ids, self._alive[:n].copy())

    def _reserve(self, n: int) -> None:
        """Make room for `n` rows. Old views keep the arrays that they have."""
        capacity = len(self._vectors)
        if n <= capacity:
            return
        capacity = max(n, 2 * capacity)
        vectors = np.empty((capacity, self._vectors.shape[1]), dtype=np.float32)
        vectors[: len(self._ids)] = self._vectors[: len(self._ids)]
        alive = np.zeros(capacity, dtype=bool)
        alive[: len(self._ids)] = self._alive[: len(self._ids)]
        self._vectors, self._alive = vectors, alive

    def _compact(self) -> None:
        """Drop the rows that are dead, into fresh arrays: views go on reading the old ones."""
        rows = sorted(self._rows.values())
        ids = [self._ids[row] for row in rows]
        self._vectors = self._vectors[rows]
        self._alive = np.ones(len(rows), dtype=bool)
        self._ids = ids
        self._rows = {chunk_id: row for row, chunk_id in enumerate(ids)}
