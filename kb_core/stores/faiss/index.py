"""Candidate indexes: they find rows that are probably near; the segment scores those exactly."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kb_core.protocols import Vectors
from kb_core.stores.faiss.engine import Found, build_threads, one_thread
from kb_core.stores.faiss.recall import TOP, Sample

IndexType = Literal["auto", "flat", "ivf", "hnsw"]
Kind = Literal["codes", "ivf", "hnsw"]

MAX_SCAN = 4_000_000
"""Floats (n * d) up to which a segment is scanned exactly: 16 MB, about 2 ms on one core."""

MIN_TRAINED = 2_000
"""Rows from which an index is built: below, an exact scan takes less time than training pays back."""

TARGET_RECALL = 0.99
# Asked of the sample, because real queries are less like the rows than it is, which inverted lists suffer from most:
# on real texts 128 of 316 lists had recall .998 on the sample and .975 on short questions.
_MARGIN_RECALL: dict[Kind, float] = {"codes": 0.995, "hnsw": 0.995, "ivf": 0.999}
_TRAINING_ROWS = 4_096
# Half of FAISS's own defaults for 16 centroids, rows and rounds: a seventh of the time at the same measured recall.
_CODE_TRAINING_ROWS = 2_048
_CODE_TRAINING_ROUNDS = 8
_BLOCK = 16_384
_DEPTHS = (64, 128, 256, 512, 1024, 2048)
_HNSW_LINKS = 32  # with efSearch 512: recall .99 on 370,000 vectors of real text
_HNSW_EFFORTS = (64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Tuning:
    """How an index is asked, and what was measured when it was built.

    Attributes:
        kind: `"codes"`: 4-bit product quantisation, 2 dimensions a code, scanned with SIMD table look-ups (Jégou et
            al., "Product quantization for nearest neighbor search", 2011; André et al., "Quicker ADC", 2019). `"ivf"`:
            inverted lists of int8 codes. `"hnsw"`: a graph over int8 codes (Malkov and Yashunin, 2018).
        effort: `nprobe` of ivf, `efSearch` of hnsw; 0 for codes.
        depth: Candidates to fetch for the ten best.
        slack: An approximate score lies at most so far below the exact one, for 999 of 1,000 candidates.
        recall: Recall@10 by score against exact search over a sample, in [0, 1].
    """

    kind: Kind
    effort: int
    depth: int
    slack: float
    recall: float


class CandidateIndex:
    """An immutable approximate index over the rows of a segment.

    Args:
        index: The FAISS index.
        tuning: How to ask it.
    """

    def __init__(self, index: Any, tuning: Tuning) -> None:
        self.faiss_index = index
        self.tuning = tuning
        _set_effort(index, tuning.kind, tuning.effort)

    def fetch(self, query: Vectors, m: int) -> Found:
        """Find about `m` near rows for a unit query (d,), with approximate scores, best first."""
        with one_thread():
            scores, rows = self.faiss_index.search(_padded(query[None, :], self.faiss_index.d), m)
        held = rows[0] >= 0
        return rows[0][held], scores[0][held]


def choose_kind(index_type: IndexType, n: int, dimension: int) -> Kind | None:
    """Choose the index for a segment; None: scan it exactly."""
    if index_type in ("ivf", "hnsw"):
        return index_type if n >= MIN_TRAINED else None
    return "codes" if index_type == "auto" and n >= MIN_TRAINED and not is_small(n, dimension) else None


def is_small(n: int, dimension: int) -> bool:
    """Tell whether an exact scan of so many rows is as fast as anything."""
    return n * dimension <= MAX_SCAN


def build_index(kind: Kind, vectors: Vectors) -> CandidateIndex | None:
    """Train, fill and measure an index over unit rows (n, d).

    Returns:
        None where codes do not reach `TARGET_RECALL` on these vectors: then they are better scanned exactly.
    """
    import faiss

    n, dimension = vectors.shape
    width = dimension + dimension % 2 if kind == "codes" else dimension
    index: Any = faiss.index_factory(width, _recipe(kind, n, width), faiss.METRIC_INNER_PRODUCT)
    generator = np.random.default_rng(0)
    n_training = max(_TRAINING_ROWS, 64 * math.isqrt(n))
    if kind == "codes":
        n_training, index.pq.cp.niter = _CODE_TRAINING_ROWS, _CODE_TRAINING_ROUNDS
    chosen = np.sort(generator.choice(n, min(n, n_training), replace=False))
    with one_thread():
        index.train(_padded(vectors[chosen], width))
    with build_threads():
        for start in range(0, n, _BLOCK):
            index.add(_padded(vectors[start : start + _BLOCK], width))
    tuning = _tune(kind, index, Sample.draw(vectors, generator))
    if kind == "codes" and tuning.recall < TARGET_RECALL:
        return None
    return CandidateIndex(index, tuning)


def _recipe(kind: Kind, n: int, width: int) -> str:
    """Give the string that FAISS's index factory builds from."""
    if kind == "codes":
        return f"PQ{width // 2}x4fs"
    return f"IVF{math.isqrt(n)},SQ8" if kind == "ivf" else f"HNSW{_HNSW_LINKS}_SQ8"


def _padded(vectors: Vectors, width: int) -> Vectors:
    """Give rows a zero column where a code takes two dimensions and their number is odd: products stay the same."""
    missing = width - vectors.shape[1]
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors)


def _set_effort(index: Any, kind: Kind, effort: int) -> None:
    if kind == "ivf":
        index.nprobe = effort
    elif kind == "hnsw":
        index.hnsw.efSearch = effort


def _tune(kind: Kind, index: Any, sample: Sample) -> Tuning:
    """Find the least effort and depth that reach the recall asked for on the sample, else the most there is."""
    if kind == "codes":
        efforts, depths = [0], list(_DEPTHS)
    elif kind == "hnsw":
        efforts, depths = list(_HNSW_EFFORTS), [_DEPTHS[0]]
    else:
        efforts, depths = [*(2**i for i in range((index.nlist - 1).bit_length())), index.nlist], [_DEPTHS[0]]
    queries = _padded(sample.queries, index.d)
    recall, slack, effort, depth = 0.0, 0.0, efforts[-1], depths[-1]
    for effort in efforts:
        _set_effort(index, kind, effort)
        with one_thread():
            approximate, rows = index.search(queries, min(depths[-1], sample.n))
        scores = sample.scores(rows)
        slack = float(np.quantile((scores - approximate)[rows >= 0], 0.999))
        for depth in depths:
            recall = sample.recall(scores[:, :depth])
            if recall >= _MARGIN_RECALL[kind]:
                # Twice the depth that did for the sample: it costs microseconds, and real queries are less alike.
                return Tuning(kind, effort, max(2 * depth, 10 * TOP), max(slack, 0.0), recall)
    return Tuning(kind, effort, depth, max(slack, 0.0), recall)
