"""Judged retrieval sets in the BEIR layout, and nDCG over them."""

import gzip
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from kb_core.documents import Document, SearchResult


@dataclass(frozen=True)
class JudgedSet:
    """Documents, queries by id, and the gain of each document for each query."""

    documents: list[Document]
    queries: dict[str, str]
    gains: dict[str, dict[str, int]]


def load(folder: Path) -> JudgedSet:
    """Read `corpus.jsonl.gz`, `queries.jsonl` and `qrels/test.tsv`; only queries with a judgement are kept."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents = [Document(id=row["_id"], content=f"{row.get('title') or ''}\n{row['text']}".strip()) for row in rows]
    gains: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query_id, document_id, gain = line.split("\t")
        gains[query_id][document_id] = int(gain)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        queries = {row["_id"]: row["text"] for row in map(json.loads, lines) if row["_id"] in gains}
    return JudgedSet([document for document in documents if document.content], queries, dict(gains))


def best_documents(results: list[SearchResult], top_k: int) -> list[str]:
    """Rank documents by their best chunk."""
    return list(dict.fromkeys(result.chunk.document_id for result in results))[:top_k]


def ndcg(ranked: list[str], gains: dict[str, int], top_k: int = 10) -> float:
    """Compute nDCG with linear gain and a log2 discount (Järvelin and Kekäläinen 2002), as `trec_eval` does."""
    discounts = [1 / math.log2(rank + 2) for rank in range(top_k)]
    found = sum(gains.get(document_id, 0) * weight for document_id, weight in zip(ranked, discounts, strict=False))
    ideal = sum(gain * weight for gain, weight in zip(sorted(gains.values(), reverse=True), discounts, strict=False))
    return found / ideal if ideal else 0.0
