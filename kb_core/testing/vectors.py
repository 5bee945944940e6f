"""Vectors and ids to test a store with, and the plain arithmetic that it is compared with."""

from collections.abc import Sequence

import numpy as np
import pytest

from kb_core.documents import Chunk
from kb_core.protocols import Hit, Vectors, VectorStore

DIMENSION = 16


def chunks(ids: Sequence[str]) -> list[Chunk]:
    """Make chunks with these ids."""
    return [Chunk(id=each, document_id="d", content="text") for each in ids]


def put(store: VectorStore, vectors: dict[str, Sequence[float]]) -> None:
    """Upsert vectors by id, in the order given."""
    store.upsert(chunks(list(vectors)), np.array(list(vectors.values()), dtype=np.float32))


def query(*values: float) -> Vectors:
    """Make a vector."""
    return np.array(values, dtype=np.float32)


def ids_of(hits: Sequence[Hit]) -> list[str]:
    """Give the ids of hits, in their order."""
    return [hit.id for hit in hits]


def cloud(n: int, dimension: int = DIMENSION, seed: int = 0) -> Vectors:
    """Draw vectors of any length around n / 50 centres, as those of real texts lie."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((n // 50 + 1, dimension))
    drawn = centres[generator.integers(0, len(centres), n)] + 0.5 * generator.standard_normal((n, dimension))
    return drawn.astype(np.float32)


def names(n: int) -> list[str]:
    """Give n ids, in an order that is not theirs."""
    return [f"chunk-{i * 7919 % 999_983:06d}" for i in range(n)]


def exact(vectors: dict[str, Vectors], vector: Vectors, k: int) -> list[Hit]:
    """Search by plain arithmetic in float64: the model that a store is compared with."""
    if not vectors:
        return []
    matrix = np.array(list(vectors.values()), dtype=np.float64)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector.astype(np.float64))
    scores = np.divide(matrix @ vector, lengths, out=np.zeros(len(matrix)), where=lengths > 0)
    return sorted((Hit(*pair) for pair in zip(vectors, scores.tolist(), strict=True)), key=lambda h: (-h.score, h.id))[
        :k
    ]


def assert_alike(store: VectorStore, held: dict[str, Vectors], vector: Vectors, k: int) -> None:
    """Check hits against the model by score: two that differ by rounding may stand either way."""
    hits, right = store.search(vector, k), exact(held, vector, k)
    assert len(set(ids_of(hits))) == len(hits) == len(right)
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in right], abs=2e-6)
    every = dict(exact(held, vector, len(held)))
    assert [every[hit.id] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=2e-6)
