"""Every vector store passes the one suite."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kb_core.protocols import Hit
from kb_core.stores.faiss import FaissVectorStore, index
from kb_core.testing.vector_store import PersistentVectorStoreSuite, VectorStoreSuite

OpenStore = Callable[[], FaissVectorStore]


class TestFaissInMemory(VectorStoreSuite):
    @pytest.fixture
    def store(self) -> FaissVectorStore:
        return FaissVectorStore()


class TestFaissInMemoryOfSegments(VectorStoreSuite):
    @pytest.fixture(params=["auto", "flat", "ivf", "hnsw"])
    def store(self, request: pytest.FixtureRequest) -> FaissVectorStore:
        return FaissVectorStore(index_type=request.param, max_tail=1)


class TestFaissOnDisk(PersistentVectorStoreSuite):
    @pytest.fixture(params=["auto", "flat", "ivf", "hnsw"])
    def open_store(self, request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
        return lambda: FaissVectorStore(tmp_path / "index" / "vectors", index_type=request.param)


class TestFaissOnDiskOfSegments(PersistentVectorStoreSuite):
    @pytest.fixture(params=["flat", "hnsw"])
    def open_store(self, request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
        return lambda: FaissVectorStore(tmp_path, index_type=request.param, max_tail=1)


class TestFaissOnDiskOfCodes(PersistentVectorStoreSuite):
    @pytest.fixture
    def open_store(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OpenStore:
        monkeypatch.setattr(index, "MAX_SCAN", 0)  # else these small stores would be scanned exactly
        monkeypatch.setattr(index, "MIN_TRAINED", 650)
        return lambda: FaissVectorStore(tmp_path, max_tail=1)


class NumpyVectorStore:
    """A user's own, in some twenty lines."""

    def __init__(self):
        self.vectors, self.revision, self.lock = {}, 0, threading.Lock()

    def upsert(self, chunks, vectors):
        vectors = np.asarray(vectors, dtype=np.float64)
        dimensions = {len(vector) for vector in self.vectors.values()} | set(vectors.shape[1:])
        if vectors.ndim != 2 or vectors.shape[0] != len(chunks) or not vectors.shape[1] or len(dimensions) > 1:
            raise ValueError(f"vectors have shape {vectors.shape} for {len(chunks)} chunks, dimensions {dimensions}")
        for chunk, vector in zip(chunks, vectors, strict=True):
            if not np.isfinite(vector).all():
                raise ValueError(f"the vector of chunk {chunk.id!r} is not finite")
        with self.lock:
            self.vectors = self.vectors | {c.id: _unit(vector) for c, vector in zip(chunks, vectors, strict=True)}

    def delete(self, ids):
        gone = set(ids)
        with self.lock:
            self.vectors = {key: value for key, value in self.vectors.items() if key not in gone}

    def search(self, vector, top_k, *, within=None):
        if type(top_k) is not int or top_k < 0 or not np.isfinite(vector).all():
            raise ValueError(f"top_k must be a count, got {top_k!r}; the query must be finite")
        held = {key: value for key, value in self.vectors.items() if within is None or key in within.ids}
        if any(len(value) != len(vector) for value in held.values()):
            raise ValueError(f"the query has dimension {len(vector)}, the store {len(next(iter(held.values())))}")
        scores = {key: float(np.clip(value @ _unit(np.asarray(vector, float)), -1, 1)) for key, value in held.items()}
        return sorted((Hit(*pair) for pair in scores.items()), key=lambda hit: (-hit.score, hit.id))[:top_k]

    def commit(self, revision):
        self.revision = revision

    def count(self):
        return len(self.vectors)

    def clear(self):
        self.__init__()

    def close(self):
        pass


def _unit(vector):
    return vector / (np.linalg.norm(vector) or 1)


class TestNumpy(VectorStoreSuite):
    @pytest.fixture
    def store(self) -> NumpyVectorStore:
        return NumpyVectorStore()
