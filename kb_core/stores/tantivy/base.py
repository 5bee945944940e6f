"""One state of a Tantivy index, for reading."""

import json
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from kb_core.protocols import Hit, Selection
from kb_core.stores.bm25 import Weights, best, idf
from kb_core.stores.tantivy.schema import decoded, filter_hash, key

if TYPE_CHECKING:
    import tantivy

_MAX_KEYS = 500  # ids that a query names, at some 10 µs each; more are sifted from its hits
_MAX_TIED = 10_000  # hits looked at for the sake of ties at the cut
_MAX_READ = 32  # ids whose terms are read one by one, with no search at all
_MAX_KNOWN_TERMS = 100_000
_BATCH = 1000


class Base:
    """The chunks of the index as it was when this was made. Thread-safe; holds no thread and no lock.

    Tantivy finds the candidates, and what it ranks them by is close to BM25 and no more: it rounds lengths down to a
    byte, counts deleted chunks among the statistics, and knows nothing of what is not in the index yet. So each
    candidate is scored again from its terms, and more are fetched until none that is left out could be among the best.

    Attributes:
        index: What it was made from.
        n_chunks: How many there are.
        n_slots: With those deleted but not merged away yet.
        n_terms: The lengths of all chunks together.
    """

    def __init__(self, index: "tantivy.Index") -> None:
        import tantivy

        self.index = index
        self._schema = index.schema
        self._searcher = index.searcher()
        self.n_chunks = self._searcher.num_docs
        self.n_slots = self._searcher.doc_freq("every", 1)
        total = self._searcher.aggregate(tantivy.Query.all_query(), {"total": {"sum": {"field": "n_terms"}}})
        self.n_terms = int(total["total"]["value"])
        self._slot_freqs: dict[str, int] = {}
        self._latest_selection: tuple[Callable[[], Selection | None], frozenset[int]] = (lambda: None), frozenset()

    def doc_freq(self, term: str) -> int:
        """Count the chunks that hold a term."""
        if self.n_slots == self.n_chunks:
            return self._slot_freq(term)
        found: Any = self._searcher.search(self._term(term), 1, count=True)
        return int(found.count)

    def _slot_freq(self, term: str) -> int:
        """Count the slots that hold a term, deleted chunks included; looking it up takes as long as a short search."""
        known = self._slot_freqs.get(term)
        if known is None:
            if len(self._slot_freqs) >= _MAX_KNOWN_TERMS:
                self._slot_freqs.clear()
            known = self._slot_freqs[term] = self._searcher.doc_freq("terms", term)
        return known

    def find(self, ids: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Give those of the ids that are there, each with its terms."""
        remaining = iter(ids)
        while batch := list(islice(remaining, _BATCH)):
            for _, address in self._searcher.search(self._any_of(batch), len(batch), count=False).hits:
                yield self._read(address)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        import tantivy

        for _, address in self._searcher.search(tantivy.Query.all_query(), max(1, self.n_slots), count=False).hits:
            yield self._read(address)

    def search(self, weights: Weights, top_k: int, hidden: Collection[str], within: Selection | None) -> list[Hit]:
        """Find at least the `top_k` best, scored by `weights`, in no order; fewer only where no more match.

        Args:
            weights: May know terms that are not here.
            top_k: Above 0.
            hidden: Ids to leave out.
            within: Only these.
        """
        if within is not None and len(within.ids) <= _MAX_READ:
            found_ids = self.find(sorted(within.ids.difference(hidden)))
            scored = (Hit(chunk_id, weights.score_terms(terms)) for chunk_id, terms in found_ids)
            return [hit for hit in scored if hit.score > 0]
        query, is_candidate = self._query(weights), None
        share = (self.n_chunks - min(len(hidden), self.n_chunks - 1)) / self.n_chunks
        if within is not None and len(within.ids) <= _MAX_KEYS:
            query = self._restricted(query, sorted(within.ids))
        elif within is not None:
            is_candidate = self._hashes(within).__contains__
            share *= min(1.0, len(within.ids) / self.n_chunks)
        limit = int((1.5 * top_k + 16) / share)
        bound = self._bound(weights)
        hits: dict[tuple[int, int], Hit | None] = {}
        while True:
            limit = min(limit, self.n_slots)
            found = self._searcher.search(query, limit, count=False).hits
            self._score(found, weights, is_candidate, hits)
            kept = [
                hit for hit in hits.values() if hit and hit.id not in hidden and (not within or hit.id in within.ids)
            ]
            if len(found) < limit or limit == self.n_slots:
                return kept
            if len(kept) >= top_k and (limit >= _MAX_TIED or best(kept, top_k)[-1].score > bound * found[-1][0]):
                return kept
            limit *= 4

    def _score(
        self,
        found: "Sequence[tuple[float, tantivy.DocAddress]]",
        weights: Weights,
        is_candidate: Callable[[int], bool] | None,
        hits: dict[tuple[int, int], Hit | None],
    ) -> None:
        """Add what was found to `hits`, by its place; None for what is out of the question."""
        new = [address for _, address in found if (address.segment_ord, address.doc) not in hits]
        hashes: Any = self._searcher.fast_field_values("filter", new) if is_candidate else ()
        for position, address in enumerate(new):
            hit = None
            if is_candidate is None or is_candidate(hashes[position]):
                chunk_id, terms = self._read(address)
                hit = Hit(chunk_id, weights.score_terms(terms))
            hits[address.segment_ord, address.doc] = hit

    def _hashes(self, selection: Selection) -> frozenset[int]:
        """Hash the ids of a selection; the latest one is kept, because a filter is often asked for again."""
        former, hashes = self._latest_selection
        if former() is not selection:
            hashes = frozenset(map(filter_hash, selection.ids))
            self._latest_selection = weakref.ref(selection), hashes
        return hashes

    def _bound(self, weights: Weights) -> float:
        """Give the largest quotient of a chunk's true score and Tantivy's.

        Both saturate a term's count c by c + k1 (1 - b + b length / average), and Tantivy never takes a length for
        longer than it is; so the quotient of the averages bounds that of the scores.
        """
        return max(1.0, weights.average_length / self._tantivy_average) * (1 + 1e-5)  # Tantivy adds up in float32

    @cached_property
    def _tantivy_average(self) -> float:
        """The average length by which Tantivy ranks, with the deleted chunks that it still counts."""
        import tantivy

        # What the chunks that are left amount to, on all slots: exact without deleted ones, else at most the average.
        average = max(self.n_terms, 1) / self.n_slots
        if self.n_slots == self.n_chunks or not self.n_terms:
            return average
        filled = tantivy.Query.range_query(self._schema, "n_terms", tantivy.FieldType.Unsigned, lower_bound=1)
        _, address = self._searcher.search(filled, 1, count=False).hits[0]
        explained = json.loads(self._term(self._read(address)[1][0]).explain(self._searcher, address).to_json())
        details = [detail for part in explained["details"] for detail in part.get("details", ())]
        told = [detail["value"] for detail in details if detail["description"].startswith("avgdl")]
        return float(told[0]) if told else average

    def _query(self, weights: Weights) -> "tantivy.Query":
        import tantivy

        clauses = []
        for term, weight in weights.by_term.items():
            doc_freq = self._slot_freq(term)
            if doc_freq:
                boosted = tantivy.Query.boost_query(self._term(term), weight / idf(self.n_slots, doc_freq))
                clauses.append((tantivy.Occur.Should, boosted))
        return tantivy.Query.boolean_query(clauses)

    def _restricted(self, query: "tantivy.Query", ids: Sequence[str]) -> "tantivy.Query":
        import tantivy

        silent = tantivy.Query.const_score_query(self._any_of(ids), 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, silent)])

    def _term(self, term: str) -> "tantivy.Query":
        import tantivy

        return tantivy.Query.term_query(self._schema, "terms", term, index_option="freq")

    def _any_of(self, ids: Sequence[str]) -> "tantivy.Query":
        import tantivy

        queries = [tantivy.Query.term_query(self._schema, "key", key(each), index_option="basic") for each in ids]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])

    def _read(self, address: "tantivy.DocAddress") -> tuple[str, list[str]]:
        document = self._searcher.doc(address)
        stored_id, terms = document.get_first("id"), document.get_first("terms")
        return decoded(stored_id or b""), (terms or "").split()
