"""A set of row numbers, and the one way in which rows are scored."""

import numpy as np
from numpy.typing import NDArray

from kb_core.protocols import Vectors

Rows = NDArray[np.int64]
"""Row numbers, shape (m,)."""


class RowSet:
    """An immutable set of row numbers in [0, n), one bit each, in the layout of FAISS's `IDSelectorBitmap`.

    Args:
        bits: uint8, (ceil(n / 8),), little-endian; bits past `n` are 0.
        size: How many bits are set; None: count them.
    """

    __slots__ = ("bits", "size")

    def __init__(self, bits: NDArray[np.uint8], size: int | None = None) -> None:
        self.bits = bits
        self.size = int(np.unpackbits(bits).sum(dtype=np.int64)) if size is None else size

    @classmethod
    def full(cls, n: int) -> "RowSet":
        """All of the rows below `n`."""
        return cls(np.packbits(np.ones(n, dtype=bool), bitorder="little"), n)

    @classmethod
    def of(cls, rows: Rows, n: int) -> "RowSet":
        """These rows of `n`."""
        mask = np.zeros(n, dtype=bool)
        mask[rows] = True
        return cls(np.packbits(mask, bitorder="little"))

    def without(self, rows: Rows) -> "RowSet":
        """A copy that lacks `rows`; those not in it are ignored."""
        bits = self.bits.copy()
        np.bitwise_and.at(bits, rows >> 3, ~_bit(rows))
        return RowSet(bits)

    def has(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell of each row whether it is in the set, (m,)."""
        is_set: NDArray[np.bool_] = (self.bits[rows >> 3] & _bit(rows)) != 0
        return is_set

    def among(self, other: "RowSet") -> "RowSet":
        """The rows that are in both."""
        return RowSet(self.bits & other.bits)

    def rows(self, n: int) -> Rows:
        """The row numbers, ascending."""
        return np.flatnonzero(np.unpackbits(self.bits, count=n, bitorder="little"))


def _bit(rows: Rows) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (rows & 7).astype(np.uint8))


def unit(vectors: Vectors) -> Vectors:
    """Scale rows to length 1, shape kept; a zero row stays zero.

    Lengths are taken in float64: the square of a large or tiny float32 is none.
    """
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("...i,...i->...", wide, wide))[..., None]
    np.divide(wide, lengths, out=wide, where=lengths > 0)
    return wide.astype(np.float32)


def cosines(rows: Vectors, query: Vectors) -> Vectors:
    """Score unit rows (m, d) against a unit query (d,): (m,), in [-1, 1].

    Every score that leaves the store comes from here. `einsum` adds a row's products in an order that depends on
    nothing but d, unlike BLAS and FAISS, whose order depends on the row's place in a block: so equal vectors have equal
    scores wherever they lie, and their ids can break the tie.
    """
    scores: Vectors = np.clip(np.einsum("ij,j->i", rows, query), -1.0, 1.0)
    return scores + np.float32(0)  # turns -0.0 into 0.0


def best(scores: Vectors, rows: Rows, k: int) -> tuple[Rows, Vectors]:
    """Keep the `k` best: larger scores first, ties by smaller row; `rows` may come in any order."""
    if k < scores.size:
        kth = np.partition(scores, scores.size - k)[scores.size - k]
        kept = np.flatnonzero(scores >= kth)
        scores, rows = scores[kept], rows[kept]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]
