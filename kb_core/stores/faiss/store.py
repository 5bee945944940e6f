"""The vector store: a tail that takes writes, segments that hold the rest."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.protocols import Hit, Selection, Vectors, check_top_k
from kb_core.stores.faiss.arguments import checked_query, checked_vectors
from kb_core.stores.faiss.directory import Directory
from kb_core.stores.faiss.generations import Generation, Generations
from kb_core.stores.faiss.ids import digests, encode
from kb_core.stores.faiss.index import IndexType
from kb_core.stores.faiss.merge import Held, segments_to_merge
from kb_core.stores.faiss.selection import SelectionCache
from kb_core.stores.faiss.tail import Tail, TailView

_log = logging.getLogger(__name__)

_MAX_TAIL = 10_000  # rows

_MAX_UNCOMMITTED = 131_072
"""Rows from which `upsert` does, so that a long run without a commit stays within bounded memory."""

_MIN_CLOSING = 512
"""Changes from which `close` writes: fewer are replayed from the truth sooner than written and synced."""


@dataclass(frozen=True)
class _Snapshot:
    """The store at one moment. Searches read it without a lock."""

    held: tuple[Held, ...]
    tail: TailView | None
    dimension: int | None


class FaissVectorStore:
    """Nearest neighbours by cosine, in this process. See `VectorStore` for what every method promises.

    Scores are exact float32 cosines whatever the index: it only chooses which rows are scored. Ties go to the smaller
    id, whatever the order of writes. `upsert`, `delete` and `commit` cost the same in a small and a large store,
    amortised over the segments that `commit` writes now and then. On disk, vectors and ids are mapped: opening reads no
    vector.

    The store is a view: on disk it holds what it held at some `commit`, and a lost or damaged one starts anew with
    revision 0 and one warning. Several processes may share a directory if they mirror the same truth; one that finds a
    newer generation at a commit goes on with that.

    Args:
        path: A directory of the store's own, made if need be; None: in memory.
        index_type: `"auto"`: exact scan while a segment has at most 4,000,000 floats (n * d, about 2 ms), then a scan
            of 4-bit codes of which enough candidates are scored to reach recall@10 >= 0.99 on a sample (exact where
            that is not reached). `"flat"`: always an exact scan. `"ivf"`, `"hnsw"`: inverted lists, a graph, tuned to
            the same recall; exact in segments below 2,000 rows. `stats()` tells the recall that was measured.
        read_only: Write nothing to disk; changes stay in memory.
        max_tail: Vectors that came since, from which `commit` makes a segment of them, at least 1. Until then each
            search scans them exactly: 10,000 x 256 in about 1.5 ms.

    Raises:
        ValueError: Another `index_type`; `max_tail` below 1.
        StoreError: The directory cannot be made.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        index_type: IndexType = "auto",
        read_only: bool = False,
        max_tail: int = _MAX_TAIL,
    ) -> None:
        if index_type not in get_args(IndexType):
            raise ValueError(f"index_type must be one of {', '.join(get_args(IndexType))}, got {index_type!r}")
        if max_tail < 1:
            raise ValueError(f"max_tail must be 1 or more, got {max_tail}")
        self._index_type = index_type
        self._selections = SelectionCache()
        self._write = threading.RLock()  # one writer at a time, for as long as a merge takes
        self._state = threading.Lock()  # guards the fields below, for microseconds
        self._max_tail = max_tail
        self._next_flush = max_tail
        self._is_closed = False
        try:
            directory = None if path is None else Directory(Path(path), read_only=read_only)
        except OSError as error:
            raise StoreError(f"{path} cannot hold a vector store: {error}") from error
        self._generations = Generations(directory, index_type)
        self._held: tuple[Held, ...]
        self._revision: int
        self._dimension: int | None
        self._tail: Tail | None
        self._snapshot: _Snapshot | None
        self._n_changes: int
        self._take(self._generations.load())

    @property
    def revision(self) -> int:
        return self._revision

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        ids = [chunk.id for chunk in chunks]
        with self._write:
            self._check_open()
            if not ids:
                return
            rows = checked_vectors(ids, vectors, self._dimension)
            held = self._without(ids)
            with self._state:
                if self._tail is None:
                    self._tail, self._dimension = Tail(rows.shape[1]), rows.shape[1]
                self._tail.upsert(ids, rows)
                self._held, self._snapshot = held, None
                self._n_changes += len(ids)
            if self._n_tail() >= max(_MAX_UNCOMMITTED, self._next_flush):
                self._flush()

    def delete(self, ids: Sequence[str]) -> None:
        with self._write:
            self._check_open()
            held = self._without(ids)
            with self._state:
                if self._tail is not None:
                    self._tail.delete(ids)
                self._held, self._snapshot = held, None
                self._n_changes += len(ids)

    def search(self, vector: Vectors, top_k: int, *, within: Selection | None = None) -> list[Hit]:
        k = check_top_k(top_k)
        snapshot = self._current()
        query = checked_query(vector, snapshot.dimension)
        if k == 0:
            return []
        hits: list[Hit] = []
        if snapshot.tail is not None:
            hits += snapshot.tail.search(query, k, None if within is None else within.ids)
        eligible = [held.alive for held in snapshot.held]
        if within is not None:
            chosen = self._selections.row_sets(within, [held.segment for held in snapshot.held])
            eligible = [alive.among(rows) for alive, rows in zip(eligible, chosen, strict=True)]
        for held, rows_allowed in zip(snapshot.held, eligible, strict=True):
            rows, scores = held.segment.search(query, k, rows_allowed)
            hits += map(Hit, map(held.segment.ids.id, rows.tolist()), scores.tolist())
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        return hits[:k]

    def count(self) -> int:
        with self._state:
            self._check_open()
            return sum(held.alive.size for held in self._held) + self._n_tail()

    def commit(self, revision: int) -> None:
        """See `View.commit`. Writes a segment once 10,000 rows have come together, or many have died."""
        with self._write:
            self._check_open()
            self._revision = revision
            if self._n_tail() >= self._next_flush or segments_to_merge(self._held, 0, self._index_type):
                self._flush(may_adopt=True)

    def clear(self) -> None:
        with self._write:
            self._check_open()
            with self._state:
                self._take(Generation())
            self._generations.clear()

    def close(self) -> None:
        """See `View.close`. Writes to disk where at least 512 changes have come together."""
        with self._write:
            if self._is_closed:
                return
            if self._generations.is_written and self._n_changes >= _MIN_CLOSING:
                self._flush()
            self._is_closed = True
            with self._state:
                self._held, self._tail, self._snapshot = (), None, None

    def stats(self) -> dict[str, Any]:
        """Tell what the store is made of, JSON-safe.

        Returns:
            `index_type`, `n` (vectors), `dead` (rows in segments that a merge will drop), `tail` (vectors in memory),
            `dimension`, `recall` (the lowest recall@10 measured on any segment when it was built, 1.0 where all are
            scanned exactly) and `segments`, each with its `n`, `dead`, `kind` (`"flat"`, `"codes"`, `"ivf"`, `"hnsw"`),
            `effort`, `depth` and `recall`.
        """
        with self._state:
            held, n_tail, dimension = self._held, self._n_tail(), self._dimension
        segments = [each.describe() for each in held]
        return {
            "index_type": self._index_type,
            "n": sum(each.alive.size for each in held) + n_tail,
            "dead": sum(each["dead"] for each in segments),
            "tail": n_tail,
            "dimension": dimension,
            "recall": min((each["recall"] for each in segments), default=1.0),
            "segments": segments,
        }

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the vector store is closed")

    def _current(self) -> _Snapshot:
        with self._state:
            self._check_open()
            if self._snapshot is None:
                tail = self._tail.view() if self._tail is not None else None
                self._snapshot = _Snapshot(self._held, tail, self._dimension)
            return self._snapshot

    def _without(self, ids: Sequence[str]) -> tuple[Held, ...]:
        """Give the segments with these ids dead."""
        if not self._held:
            return ()
        keys = digests(map(encode, ids))
        return tuple(held.without(held.segment.ids.find(keys)) for held in self._held)

    def _flush(self, *, may_adopt: bool = False) -> None:
        """Make a segment of the tail, on disk where there is one; see `Generations.follow`."""
        with self._state:
            last = Generation(self._held, self._revision, self._dimension)
            tail = self._tail.view() if self._tail is not None else None
        try:
            following = self._generations.follow(last, tail, may_adopt=may_adopt)
        except OSError as error:  # a full disk, say: nothing is lost, the tail goes on growing
            _log.warning("the vector store could not be written (%s); what is new stays in memory", error)
            following = None
        if following is None:
            self._next_flush = 2 * max(self._n_tail(), self._max_tail)
            return
        self._next_flush = self._max_tail
        with self._state:
            self._take(following)

    def _take(self, generation: Generation) -> None:
        self._held, self._revision, self._dimension = generation.held, generation.revision, generation.dimension
        self._tail = Tail(self._dimension) if self._dimension is not None else None
        self._snapshot = None
        self._n_changes = 0

    def _n_tail(self) -> int:
        return len(self._tail) if self._tail is not None else 0
