"""What callers hand in, checked before anything changes."""

from collections.abc import Sequence

import numpy as np

from kb_core.protocols import Vectors
from kb_core.stores.faiss.rows import unit


def checked_vectors(ids: Sequence[str], vectors: object, dimension: int | None) -> Vectors:
    """Give a fresh matrix of unit rows, (len(ids), d).

    Raises:
        ValueError: Another shape, another dimension than the store's, or a value that is not finite.
    """
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or len(matrix) != len(ids) or matrix.shape[1] == 0:
        raise ValueError(f"vectors must have shape ({len(ids)}, d) for {len(ids)} chunks, got {matrix.shape}")
    _check_dimension(matrix.shape[1], dimension)
    _check_number(matrix)
    wrong = ~np.isfinite(matrix).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        value = matrix[row][~np.isfinite(matrix[row])][0]
        raise ValueError(f"the vector of chunk {ids[row]!r} holds {value}; every value must be finite")
    return unit(matrix)


def checked_query(vector: object, dimension: int | None) -> Vectors:
    """Give a fresh unit vector, (d,).

    Raises:
        ValueError: Another shape, another dimension than the store's, or a value that is not finite.
    """
    query = np.asarray(vector)
    if query.ndim != 1 or query.size == 0:
        raise ValueError(f"a query vector must have shape (d,), got {query.shape}")
    _check_dimension(query.size, dimension)
    _check_number(query)
    if not np.isfinite(query).all():
        raise ValueError(f"the query vector holds {query[~np.isfinite(query)][0]}; every value must be finite")
    return unit(query)


def _check_dimension(got: int, dimension: int | None) -> None:
    if dimension is not None and got != dimension:
        raise ValueError(f"vectors must have the store's dimension {dimension}, got {got}")


def _check_number(values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> None:
    if values.dtype.kind not in "fiu":
        raise ValueError(f"vectors must be real numbers, got an array of {values.dtype}")
