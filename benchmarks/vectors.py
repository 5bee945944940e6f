"""The vector store alone: `python -m benchmarks.vectors [--n 100000] [--vectors file.npy] [--types auto,flat]`.

Each index type is filled in one process and searched in another, so that memory and the first search are those of a
program that opens a store. Vectors are drawn around centres unless a file is given; queries are held-out ones of
theirs, or `--queries file.npy`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kb_core.documents import Chunk
from kb_core.stores.faiss import FaissVectorStore

BATCH = 2_048  # chunks, as the truth hands them to a view
N_QUERIES = 200


def clustered(n: int, dimension: int) -> np.ndarray:
    """Draw n vectors around n / 100 centres, at a cosine of about 0.9 to theirs."""
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((n // 100 + 1, dimension), dtype=np.float32)
    noise = generator.standard_normal((n, dimension), dtype=np.float32)
    return centres[generator.integers(0, len(centres), n)] + 0.5 * noise


def rss_mb() -> float:
    """Give the resident set in MB, mapped pages that were touched included."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def fill(path: Path, index_type: str, vectors: np.ndarray) -> dict[str, float]:
    """Upsert in batches, commit, close."""
    chunks = [Chunk.model_construct(id=f"chunk-{i:08d}", document_id="d", content="") for i in range(len(vectors))]
    start = time.perf_counter()
    store = FaissVectorStore(path, index_type=index_type)
    for row in range(0, len(vectors), BATCH):
        store.upsert(chunks[row : row + BATCH], vectors[row : row + BATCH])
    store.commit(1)
    store.close()
    size = sum(file.stat().st_size for file in path.iterdir())
    return {"ingest_s": time.perf_counter() - start, "disk_mb": size / 1e6}


def search(path: Path, index_type: str, queries: np.ndarray, tenths: np.ndarray) -> dict[str, float]:
    """Open, search, and compare with the exact tenth score of each query."""
    FaissVectorStore().search(queries[0], 10)
    FaissVectorStore(index_type="flat", max_tail=1).upsert([Chunk(id="a", document_id="d", content="a")], queries[:1])
    import faiss  # noqa: F401  an open empty store has it loaded, too

    empty = rss_mb()
    start = time.perf_counter()
    store = FaissVectorStore(path, index_type=index_type)
    opened = time.perf_counter()
    store.search(queries[0], 10)
    first = time.perf_counter()
    times, good = [], 0
    for query, tenth in zip(queries, tenths, strict=True):
        began = time.perf_counter()
        hits = store.search(query, 10)
        times.append(time.perf_counter() - began)
        good += sum(hit.score >= tenth - 1e-6 for hit in hits)
    return {
        "open_ms": 1e3 * (opened - start),
        "first_ms": 1e3 * (first - opened),
        "p50_ms": 1e3 * float(np.quantile(times, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
        "min_ms": 1e3 * min(times),
        "recall": good / 10 / len(queries),
        "rss_mb": rss_mb() - empty,
    }


def measure(folder: Path, index_type: str) -> dict[str, float]:
    """Run both steps, each in a process of its own."""
    figures: dict[str, float] = {}
    for step in ("fill", "search"):
        command = [
            sys.executable,
            "-m",
            "benchmarks.vectors",
            "--step",
            step,
            "--folder",
            folder,
            "--types",
            index_type,
        ]
        figures |= json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def run_step(step: str, folder: Path, index_type: str) -> None:
    """Do one step on the arrays in the folder."""
    path = folder / index_type
    if step == "fill":
        figures = fill(path, index_type, np.load(folder / "vectors.npy"))
    else:
        figures = search(path, index_type, np.load(folder / "queries.npy"), np.load(folder / "tenths.npy"))
    print(json.dumps(figures))


def prepare(folder: Path, vectors: np.ndarray, queries: np.ndarray) -> None:
    """Save the arrays with the exact tenth score of each query."""
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    scores = queries @ vectors.T
    np.save(folder / "tenths.npy", np.partition(scores, scores.shape[1] - 10, axis=1)[:, -10])
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "queries.npy", queries)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--vectors", type=Path, help="a .npy file, float32 (n, d)")
    parser.add_argument("--queries", type=Path, help="a .npy file, float32 (m, d)")
    parser.add_argument("--types", default="auto,flat,ivf,hnsw")
    parser.add_argument("--step", choices=["fill", "search"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        run_step(arguments.step, arguments.folder, arguments.types)
        return
    drawn = np.load(arguments.vectors) if arguments.vectors else clustered(arguments.n + N_QUERIES, arguments.dimension)
    queries = np.load(arguments.queries) if arguments.queries else drawn[-N_QUERIES:]
    vectors = drawn if arguments.queries else drawn[:-N_QUERIES]
    with tempfile.TemporaryDirectory() as temporary:
        prepare(Path(temporary), vectors, queries)
        print(f"{len(vectors)} x {vectors.shape[1]}, {len(queries)} queries; raw {vectors.nbytes / 1e6:.0f} MB")
        for index_type in arguments.types.split(","):
            figures = measure(Path(temporary), index_type)
            print(f"{index_type:5}", "  ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
