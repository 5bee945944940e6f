"""The store: a Tantivy index, and in memory what changed since it was written."""

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kb_core.analysis import Analyzer
from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.protocols import Hit, Selection, check_top_k
from kb_core.stores.bm25 import TermCounts, Weights, best, idf
from kb_core.stores.tantivy.base import Base
from kb_core.stores.tantivy.directory import IndexDirectory, State
from kb_core.stores.tantivy.schema import new_index, write

if TYPE_CHECKING:
    import tantivy

_log = logging.getLogger(__name__)

# A commit of Tantivy costs some 15 ms and a segment, whether for one chunk or a thousand. So changes wait in memory,
# where a search costs little while they are few; a long run of them goes over in large pieces.
_MAX_WAITING = 1000
_MAX_WAITING_UNCOMMITTED = 16_384
_MAX_SLOTS_PER_CHUNK = 1.5  # beyond it so much of the index is deleted that writing it anew pays


class TantivyKeywordStore:
    """BM25 in an index that grows by what changes and stays on disk. See `KeywordStore`.

    Scores are exact, the same as those of `RankBM25KeywordStore`, whatever was added, updated and deleted before.

    Several processes may open one directory. Each sees its own changes at once, and those of others when it is told of
    them or opens the store again; one at a time writes, and none waits. A process that dies leaves an index that is
    complete, or one that is found damaged, with a warning, and counts as empty: `revision` says 0.

    Cost: a search of 100,000 chunks takes some ms, a change of a few chunks microseconds, opening some 10 ms.

    Args:
        path: The directory, made when there is something to write; nobody else's files may be in it. None: in memory.
        analyzer: Turns chunks and queries into terms; None: an `Analyzer` for English. An index that another analysis
            made counts as empty.
        read_only: Leave the directory as it is; changes stay in memory.
    """

    def __init__(self, path: Path | None = None, analyzer: Analyzer | None = None, *, read_only: bool = False) -> None:
        self._analyzer = analyzer or Analyzer()
        self._read_only = read_only
        self._directory = (
            None if path is None else IndexDirectory(Path(path), self._analyzer.fingerprint, read_only=read_only)
        )
        self._make_locks()
        self._is_closed = False
        self._load()
        _stores.add(self)

    def _make_locks(self) -> None:
        self._writing = threading.RLock()  # taken first, by whoever changes the store, for as long as that takes
        self._lock = threading.RLock()  # guards what a search reads, for moments

    def _reset(self, state: State | None, base: Base | None, revision: int | None = None) -> None:
        """Stand at a state of the disk, or in memory at a revision, with no changes."""
        with self._lock:
            self._state, self._base = state, base
            self._revision = (state.revision if state else 0) if revision is None else revision
            self._is_saved = True
            self._changes: dict[str, str | None] = {}  # terms by id, None where it is deleted; they hide the base's
            self._unsettled: set[str] = set()  # changes that the statistics do not reflect yet
            self._tail = TermCounts()
            self._hidden = TermCounts()  # chunks of the base that a change hides
            self._hidden_ids: frozenset[str] = frozenset()

    def _load(self) -> None:
        loaded = self._directory.load() if self._directory else None
        if loaded is None:
            self._reset(None, None)
        else:
            self._reset(loaded[0], Base(loaded[1]))

    @property
    def revision(self) -> int:
        return self._revision

    def commit(self, revision: int) -> None:
        with self._writing:
            self._check_open()
            self._is_saved = self._is_saved and revision == self._revision
            self._revision = revision
            if len(self._changes) > _MAX_WAITING:
                self._save(may_reload=True)

    def count(self) -> int:
        with self._lock:
            self._settle()
            return self._n_chunks()

    def clear(self) -> None:
        with self._writing:
            self._check_open()
            self._reset(None, None)
            if self._directory and not self._read_only and self._directory.path.exists():
                with self._directory.lock() as is_held:
                    if is_held:
                        self._directory.forget()

    def close(self) -> None:
        with self._writing:
            if not self._is_closed and self._directory and not self._is_saved:
                self._save(may_reload=True)
            self._reset(None, None)
            self._is_closed = True

    def upsert(self, chunks: Sequence[Chunk]) -> None:
        self._change({chunk.id: " ".join(self._analyzer.terms(chunk.content)) for chunk in chunks})

    def delete(self, ids: Sequence[str]) -> None:
        self._change(dict.fromkeys(ids))

    def search(self, query: str, top_k: int, *, within: Selection | None = None) -> list[Hit]:
        top_k = check_top_k(top_k)
        terms = Counter(self._analyzer.terms(query))
        allowed = None if within is None else within.ids
        with self._lock:
            self._check_open()
            if not terms or not top_k:
                return []
            self._settle()
            weights = self._weights(terms)
            hits = self._tail.search(weights, allowed)
            base, hidden = self._base, self._hidden_ids
        if base and base.n_chunks and weights.by_term:
            hits += base.search(weights, top_k, hidden, within)
        return best(hits, top_k)

    def _change(self, changes: dict[str, str | None]) -> None:
        with self._writing:
            self._check_open()
            with self._lock:
                self._changes.update(changes)
                self._unsettled.update(changes)
            self._is_saved = self._is_saved and not changes
            if len(self._changes) >= _MAX_WAITING_UNCOMMITTED:
                self._save(may_reload=False)

    def _settle(self) -> None:
        """Take the changes into the statistics: a bulk load that nobody searches meanwhile never pays for it."""
        if not self._unsettled:
            return
        for chunk_id in self._unsettled:
            terms = self._changes[chunk_id]
            if terms is None:
                self._tail.discard(chunk_id)
            else:
                self._tail.add(chunk_id, terms.split())
        if self._base:
            for chunk_id, found in self._base.find([each for each in self._unsettled if each not in self._hidden_ids]):
                self._hidden.add(chunk_id, found)
        self._hidden_ids |= self._unsettled
        self._unsettled = set()

    def _n_chunks(self) -> int:
        return (self._base.n_chunks if self._base else 0) - len(self._hidden) + len(self._tail)

    def _weights(self, terms: Counter[str]) -> Weights:
        n_chunks = self._n_chunks()
        n_terms = (self._base.n_terms if self._base else 0) - self._hidden.n_terms + self._tail.n_terms
        weights = {}
        for term, n_repeats in terms.items():
            doc_freq = self._base.doc_freq(term) if self._base else 0
            doc_freq += self._tail.doc_freqs[term] - self._hidden.doc_freqs[term]
            if doc_freq:
                weights[term] = n_repeats * idf(n_chunks, doc_freq)
        return Weights(weights, n_terms / n_chunks if n_terms else 1.0)

    def _save(self, *, may_reload: bool) -> None:
        """Write the changes into the index, if no other process is writing; they are kept in memory otherwise.

        Args:
            may_reload: The caller has just said which revision the store holds, so it may say a lower one afterwards.
        """
        try:
            if self._directory is None:
                self._save_in_memory()
            elif not self._read_only:
                with self._directory.lock() as is_held:
                    if is_held:
                        self._save_on_disk(self._directory, may_reload=may_reload)
        except (OSError, ValueError) as error:
            _log.warning("The keyword index could not be written, its changes stay in memory: %s", error)

    def _save_in_memory(self) -> None:
        if self._base is None or self._is_sparse():
            index = new_index(None)
            write(index, (), self._all_chunks())
        else:
            index = self._base.index
            write(index, self._changes, self._kept_changes())
        self._reset(None, Base(index), self._revision)

    def _save_on_disk(self, directory: IndexDirectory, *, may_reload: bool) -> None:
        on_disk = directory.state()
        if self._base is None:
            generation, index = self._new_generation(directory)  # whatever is on disk: the changes are all there is
        elif self._state is None or on_disk is None or on_disk.revision < self._state.revision:
            # An older index is there, or none: changes are missing between it and ours. Say so, and have them again.
            if may_reload:
                self._load()
            return
        elif on_disk == self._state and self._is_sparse():
            generation, index = self._new_generation(directory)
        else:
            # Another process may have written meanwhile. The changes are all since `_state`, so on top of anything
            # later they make an index that is right for our revision, and harmlessly ahead of it where theirs was.
            generation, index = on_disk.generation, self._base.index
            if on_disk != self._state:
                index = directory.open(on_disk)
            if self._changes:
                write(index, self._changes, self._kept_changes())
        state = directory.publish(generation, self._revision, on_disk)
        self._reset(state, Base(index))

    def _new_generation(self, directory: IndexDirectory) -> "tuple[str, tantivy.Index]":
        generation = directory.new_generation()
        index = new_index(str(directory.path / generation))
        write(index, (), self._all_chunks())
        return generation, index

    def _is_sparse(self) -> bool:
        base = self._base
        return base is not None and base.n_slots > max(_MAX_WAITING, _MAX_SLOTS_PER_CHUNK * base.n_chunks)

    def _kept_changes(self) -> Iterable[tuple[str, str]]:
        return ((chunk_id, terms) for chunk_id, terms in self._changes.items() if terms is not None)

    def _all_chunks(self) -> Iterable[tuple[str, str]]:
        for chunk_id, terms in self._base or ():
            if chunk_id not in self._changes:
                yield chunk_id, " ".join(terms)
        yield from self._kept_changes()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the keyword store is closed; open another one")


_stores: "weakref.WeakSet[TantivyKeywordStore]" = weakref.WeakSet()


def _renew_locks() -> None:
    """A thread that held a lock at the fork is not in the child to let go of it."""
    for store in _stores:
        store._make_locks()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
