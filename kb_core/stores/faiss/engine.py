"""The calls into FAISS that do not depend on the kind of index."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_core.protocols import Vectors

_PID = os.getpid()

Found = tuple[NDArray[np.int64], Vectors]
"""Row numbers and their inner products, best first, both of shape (m,)."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep FAISS to the calling thread.

    One query is too little work to share out: OpenMP's threads spin while they wait for each other, which on a busy
    machine costs far more than it saves (measured: 77 ms in place of 17 for a scan of 100,000 x 256 on two cores). And
    in a forked child OpenMP's threads are gone, so that waiting for them would never end. The setting belongs to the
    calling thread, and is put back for callers who use FAISS themselves.
    """
    import faiss

    before = faiss.omp_get_max_threads()
    if before == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@contextmanager
def build_threads() -> Iterator[None]:
    """Let FAISS use every core for a long build, except in a forked child (see `one_thread`)."""
    if os.getpid() != _PID:
        with one_thread():
            yield
    else:
        yield


def scan(rows: Vectors, query: Vectors, m: int, bits: NDArray[np.uint8] | None = None) -> Found:
    """Find the `m` rows with the largest inner product, exactly.

    Args:
        rows: (n, d), C-contiguous, in memory or mapped.
        query: (d,).
        m: How many, at least 1.
        bits: (ceil(n / 8),), little-endian: only rows whose bit is set; None: all.
    """
    import faiss

    n, dimension = rows.shape
    m = min(m, n)
    scores = np.empty(m, dtype=np.float32)
    found = np.empty(m, dtype=np.int64)
    only = None if bits is None else faiss.IDSelectorBitmap(bits.size, faiss.swig_ptr(bits))
    pointers = (faiss.swig_ptr(query), faiss.swig_ptr(rows))
    with one_thread():
        faiss.knn_inner_product(*pointers, dimension, 1, n, m, faiss.swig_ptr(scores), faiss.swig_ptr(found), only)
    held = found >= 0
    return found[held], scores[held]


def save_index(index: Any) -> NDArray[np.uint8]:
    """Give the bytes of an index file."""
    import faiss

    data: NDArray[np.uint8] = faiss.serialize_index(index)
    return data


def load_index(path: Path) -> Any:
    """Open an index file, mapped where FAISS can map that kind (HNSW graphs, flat codes), else read."""
    import faiss

    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
