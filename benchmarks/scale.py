"""A knowledge base at scale: ingest with ready vectors, reopen to the first result, search.

The embedder is a table look-up, so that what is measured is the knowledge base.
"""

import argparse
import gzip
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kb_core import Document, LocalKB
from kb_core.protocols import Vectors

DIMENSION = 256


class TableEmbedder:
    """Looks vectors up; a text that is not in the table gets a random one, the same at each run."""

    default_alpha = 0.7
    dimension = DIMENSION
    fingerprint = f"table:{DIMENSION}"

    def __init__(self, table: dict[str, Vectors]) -> None:
        self._table = table

    def embed_documents(self, texts: list[str]) -> Vectors:
        return np.stack([self._table[text] for text in texts])

    def embed_query(self, text: str) -> Vectors:
        return self._table[text]


def load_texts(path: Path, n_texts: int) -> list[str]:
    """Read the first texts of a file with a JSON string a line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(n_texts), lines, strict=False)]


def embed_texts(texts: list[str], cache: Path | None) -> Vectors:
    """Give static word vectors of the texts, from the cache where it has them."""
    from kb_core.embedders import StaticEmbedder

    if cache is not None and cache.is_file():
        vectors: Vectors = np.load(cache)
        if len(vectors) >= len(texts):
            return vectors[: len(texts)]
    vectors = StaticEmbedder().embed_documents(texts)
    if cache is not None:
        np.save(cache, vectors)
    return vectors


def queries_of(texts: list[str], n_queries: int) -> list[str]:
    """Make queries: eight words out of the middle of texts, evenly spread."""
    chosen = (texts[i] for i in range(0, len(texts), max(1, len(texts) // (2 * n_queries))))
    words = (text.split() for text in chosen)
    return [" ".join(found[len(found) // 3 :][:8]) for found in words if len(found) > 12][:n_queries]


def milliseconds(kb: LocalKB, queries: list[str], search_type: str) -> str:
    """Time searches, each on its own: p50 and p95."""
    times = []
    for query in queries:
        started = time.perf_counter()
        kb.search(query, 5, search_type=search_type)
        times.append((time.perf_counter() - started) * 1000)
    return f"p50 {statistics.median(times):6.2f} ms   p95 {statistics.quantiles(times, n=20)[-1]:6.2f} ms"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a gzipped file with a JSON string a line")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--vectors", type=Path, help="an .npy file that keeps the vectors between runs")
    options = parser.parse_args(arguments)

    texts = load_texts(options.data, options.texts)
    queries = queries_of(texts, options.queries)
    table = dict(zip(texts, embed_texts(texts, options.vectors), strict=True))
    table.update(zip(queries, embed_texts(queries, None), strict=True))
    embedder = TableEmbedder(table)
    documents = [Document(content=text, source=f"{number}.txt") for number, text in enumerate(texts)]

    folder = Path(tempfile.mkdtemp(prefix="kb-scale-"))
    try:
        started = time.perf_counter()
        with LocalKB("scale", path=folder, embedder=embedder) as kb:
            kb.add_documents(documents, progress=False)
            print(f"ingest   {time.perf_counter() - started:6.2f} s  ({len(texts):,} chunks)")
        print(f"  closed {time.perf_counter() - started:6.2f} s")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"disk     {size / 1e6:6.0f} MB")
        started = time.perf_counter()
        kb = LocalKB("scale", path=folder, embedder=embedder)
        kb.search(queries[0])
        print(f"reopen   {time.perf_counter() - started:6.2f} s  to the first result")
        for search_type in ("hybrid", "vector", "keyword"):
            print(f"{search_type:<8} {milliseconds(kb, queries, search_type)}")
        kb.close()
    finally:
        shutil.rmtree(folder)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
