"""BM25 in memory: the formula, and chunks as term counts.

Okapi BM25 (Robertson and Zaragoza, *The Probabilistic Relevance Framework: BM25 and Beyond*, 2009) with the idf that
Lucene made the custom, ln(1 + (N - n + 0.5) / (n + 0.5)): never negative, so that sharing a term always counts.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kb_core.protocols import Hit

K1 = 1.2
"""Saturation of a term's repetitions. Lucene's and Tantivy's value, in the 1.2 to 2 that TREC experiments favoured."""

B = 0.75
"""How far a chunk's length counts, from 0 (not) to 1 (in full)."""


def idf(n_chunks: int, doc_freq: int) -> float:
    """Weigh a term that `doc_freq` of `n_chunks` chunks hold; above 0 for `doc_freq <= n_chunks`."""
    return math.log1p((n_chunks - doc_freq + 0.5) / (doc_freq + 0.5))


def rounded(score: float) -> float:
    """Keep 12 significant digits: scores that differ by the order of an addition only are a tie."""
    return float(f"{score:.12g}")


@dataclass(frozen=True)
class Weights:
    """A query, weighed by the statistics of a collection.

    Attributes:
        by_term: The terms that the collection holds, each with its idf, times its repetitions in the query.
        average_length: Terms a chunk, above 0.
    """

    by_term: Mapping[str, float]
    average_length: float

    def score_terms(self, terms: Sequence[str]) -> float:
        """Score one chunk by its terms."""
        counts: dict[str, int] = {}
        for term in terms:
            if term in self.by_term:
                counts[term] = counts.get(term, 0) + 1
        return self.score(counts, len(terms))

    def score(self, counts: Mapping[str, int], length: int) -> float:
        """Score one chunk by its term counts and their sum; 0 where it shares no term."""
        norm = K1 * (1 - B + B * length / self.average_length)
        total = 0.0
        for term, weight in self.by_term.items():
            count = counts.get(term)
            if count:
                total += weight * count * (K1 + 1) / (count + norm)
        return rounded(total)


class TermCounts:
    """Chunks as term counts, with the statistics that BM25 needs. Not thread-safe.

    Attributes:
        n_terms: The lengths of all chunks together.
        doc_freqs: In how many chunks each term is.
    """

    def __init__(self) -> None:
        self.n_terms = 0
        self.doc_freqs: Counter[str] = Counter()
        self._chunks: dict[str, tuple[Counter[str], int]] = {}
        self._postings: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    def add(self, chunk_id: str, terms: Sequence[str]) -> None:
        """Hold a chunk, in place of a former one with this id."""
        self.discard(chunk_id)
        counts = Counter(terms)
        self._chunks[chunk_id] = counts, len(terms)
        self.n_terms += len(terms)
        for term in counts:
            self._postings.setdefault(term, set()).add(chunk_id)
            self.doc_freqs[term] += 1

    def discard(self, chunk_id: str) -> None:
        """Drop a chunk, if it is held."""
        if chunk_id not in self._chunks:
            return
        counts, length = self._chunks.pop(chunk_id)
        self.n_terms -= length
        for term in counts:
            self._postings[term].discard(chunk_id)
            self.doc_freqs[term] -= 1
            if not self.doc_freqs[term]:
                del self.doc_freqs[term], self._postings[term]

    def search(self, weights: Weights, within: frozenset[str] | None) -> list[Hit]:
        """Score every chunk that shares a term, in no order."""
        nothing: set[str] = set()
        found = set().union(*(self._postings.get(term, nothing) for term in weights.by_term))
        if within is not None:
            found &= within
        return [Hit(chunk_id, weights.score(*self._chunks[chunk_id])) for chunk_id in found]


def best(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Give the `top_k` best, best first, ties in order of id."""
    return heapq.nsmallest(top_k, hits, key=lambda hit: (-hit.score, hit.id))
