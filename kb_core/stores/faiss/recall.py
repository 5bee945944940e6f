"""Recall against exact search, measured on a sample when an index is built."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kb_core.protocols import Vectors
from kb_core.stores.faiss.rows import unit

TOP = 10
"""Recall is counted over so many best hits."""

_N_QUERIES = 64
_BLOCK = 16_384
_ROUNDING = 1e-5  # BLAS and einsum add up in different orders


@dataclass(frozen=True)
class Sample:
    """Queries with what an exact search finds for them.

    Attributes:
        queries: Unit float32, (64, d): half are stored rows, half lie midway between two of them. The latter are
            harder, as a short question is that touches several texts.
        tenth: (64,): the exact score of each query's tenth best row.
    """

    queries: Vectors
    tenth: Vectors
    vectors: Vectors

    @classmethod
    def draw(cls, vectors: Vectors, generator: np.random.Generator) -> "Sample":
        """Draw queries from unit rows (n, d), n >= 10, and search them exactly. O(64 n d), as one matrix product."""
        first, second = generator.integers(0, len(vectors), (2, _N_QUERIES))
        queries = vectors[first].copy()
        queries[::2] = unit(queries[::2] + vectors[second[::2]])
        top = np.full((_N_QUERIES, TOP), -np.inf, dtype=np.float32)
        for start in range(0, len(vectors), _BLOCK):
            scores = np.concatenate([top, queries @ vectors[start : start + _BLOCK].T], axis=1)
            top = np.partition(scores, scores.shape[1] - TOP, axis=1)[:, -TOP:]
        return cls(queries, top.min(axis=1), vectors)

    @property
    def n(self) -> int:
        """How many rows are searched."""
        return len(self.vectors)

    def scores(self, rows: NDArray[np.int64]) -> Vectors:
        """Score candidates (64, m) exactly; -2 in place of a row -1."""
        exact = [
            np.einsum("ij,j->i", self.vectors[each], query) for each, query in zip(rows, self.queries, strict=True)
        ]
        return np.where(rows >= 0, np.stack(exact), np.float32(-2))

    def recall(self, scores: Vectors) -> float:
        """Give recall@10 of candidates with these exact scores (64, m).

        By score, not by id: a hit as good as the exact tenth counts, since real texts have many near-duplicates.
        """
        good = (scores >= self.tenth[:, None] - _ROUNDING).sum(axis=1)
        return float(np.minimum(good, TOP).mean() / TOP)
