"""What to merge, and the new segment that comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kb_core.protocols import Vectors
from kb_core.stores.faiss.directory import Directory
from kb_core.stores.faiss.engine import load_index, save_index
from kb_core.stores.faiss.ids import IdTable, encode
from kb_core.stores.faiss.index import CandidateIndex, IndexType, build_index, choose_kind
from kb_core.stores.faiss.manifest import SegmentEntry
from kb_core.stores.faiss.rows import Rows, RowSet
from kb_core.stores.faiss.segment import Segment
from kb_core.stores.faiss.tail import TailView

_GROWTH = 2
_MIN_DEAD = 1_000  # rows
_BLOCK = 4_096  # rows


@dataclass(frozen=True, eq=False)
class Held:
    """A segment in use.

    Attributes:
        segment: The rows.
        alive: Those that have not been deleted or superseded since.
        entry: Its files; None in memory.
    """

    segment: Segment
    alive: RowSet
    entry: SegmentEntry | None

    def without(self, rows: Rows) -> "Held":
        """The same with fewer rows alive; itself where `rows` is empty."""
        return replace(self, alive=self.alive.without(rows)) if rows.size else self

    def describe(self) -> dict[str, Any]:
        """Tell what it is, JSON-safe: see `FaissVectorStore.stats`."""
        n, index = len(self.segment), self.segment.index
        described: dict[str, Any] = {"n": n, "dead": n - self.alive.size}
        if index is None:
            return {**described, "kind": "flat", "effort": 0, "depth": 0, "recall": 1.0}
        tuning = index.tuning
        return {
            **described,
            "kind": tuning.kind,
            "effort": tuning.effort,
            "depth": tuning.depth,
            "recall": tuning.recall,
        }


def segments_to_merge(held: Sequence[Held], n_tail: int, index_type: IndexType) -> list[Held]:
    """Choose the segments to rewrite together with a tail of `n_tail` rows.

    Always those whose rows are dead by a quarter, or that were written for another index type. Then, from the smallest,
    each that is at most twice what has been gathered: so a row is rewritten O(log n) times, and O(log n) segments stay.
    """
    wanted = [each for each in held if _is_worn(each) or each.segment.index_type != index_type]
    total = n_tail + sum(each.alive.size for each in wanted)
    for each in sorted(held, key=lambda each: each.alive.size):
        if total and each not in wanted and each.alive.size <= _GROWTH * total:
            wanted.append(each)
            total += each.alive.size
    return wanted


def _is_worn(held: Held) -> bool:
    n_dead = len(held.segment) - held.alive.size
    return held.alive.size == 0 or n_dead >= max(_MIN_DEAD, len(held.segment) // 4)


class Merge:
    """The living rows of some segments and a tail, in order of id.

    Args:
        held: The segments; no id is alive in two of them.
        tail: The tail, or None.
    """

    def __init__(self, held: Sequence[Held], tail: TailView | None) -> None:
        ids: list[bytes] = []
        sources: list[Vectors] = []
        rows: list[Rows] = []
        for each in held:
            alive = each.alive.rows(len(each.segment))
            every = each.segment.ids.encoded()
            ids += [every[row] for row in alive.tolist()]
            sources.append(each.segment.vectors)
            rows.append(alive)
        if tail is not None:
            alive = np.flatnonzero(tail.alive)
            ids += [encode(tail.ids[row]) for row in alive.tolist()]
            sources.append(tail.vectors)
            rows.append(alive)
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
        self.ids = [ids[i] for i in order.tolist()]
        self._sources = sources
        self._source = np.repeat(np.arange(len(rows)), [each.size for each in rows])[order]
        self._rows = np.concatenate([*rows, np.empty(0, dtype=np.int64)])[order]

    def blocks(self) -> Iterator[Vectors]:
        """Yield the vectors by id, (at most 4096, d) each."""
        for start in range(0, len(self.ids), _BLOCK):
            source, rows = self._source[start : start + _BLOCK], self._rows[start : start + _BLOCK]
            block = np.empty((rows.size, self._sources[0].shape[1]), dtype=np.float32)
            for number in np.unique(source).tolist():
                chosen = source == number
                block[chosen] = self._sources[number][rows[chosen]]
            yield block

    def build(self, index_type: IndexType, directory: Directory | None) -> Held:
        """Make the segment, its files complete on disk where there is a directory. There must be a row."""
        n, dimension = len(self.ids), self._sources[0].shape[1]
        table = IdTable.pack(self.ids)
        if directory is None:
            vectors = np.empty((n, dimension), dtype=np.float32)
            for number, block in enumerate(self.blocks()):
                vectors[number * _BLOCK : number * _BLOCK + len(block)] = block
            index = _index(index_type, vectors)
            return Held(Segment(vectors, IdTable(table), index, index_type), RowSet.full(n), None)
        vectors_file = directory.write(".vectors", (block.reshape(-1).view(np.uint8) for block in self.blocks()))
        ids_file = directory.write(".ids", [table])
        index = _index(index_type, directory.map(vectors_file).view(np.float32).reshape(n, dimension))
        entry = SegmentEntry(n, index_type, vectors_file, ids_file)
        if index is not None:
            index_file = directory.write(".index", [save_index(index.faiss_index)])
            entry = replace(entry, index=index_file, tuning=index.tuning)
        return open_segment(directory, entry, dimension)


def _index(index_type: IndexType, vectors: Vectors) -> CandidateIndex | None:
    kind = choose_kind(index_type, *vectors.shape)
    return None if kind is None else build_index(kind, vectors)


def open_segment(directory: Directory, entry: SegmentEntry, dimension: int) -> Held:
    """Map the files of a segment.

    Raises:
        OSError, ValueError, RuntimeError: They are not what the manifest says.
    """
    vectors = directory.map(entry.vectors).view(np.float32).reshape(entry.n, dimension)
    ids = IdTable(directory.map(entry.ids))
    if ids.n != entry.n:
        raise ValueError(f"{entry.ids.name} holds {ids.n} ids for {entry.n} vectors")
    index = None
    if entry.index is not None and entry.tuning is not None:
        index = CandidateIndex(load_index(directory.check(entry.index)), entry.tuning)
    alive = RowSet.full(entry.n) if entry.alive is None else RowSet(directory.map(entry.alive))
    if alive.bits.size != -(-entry.n // 8):
        raise ValueError(f"a segment of {entry.n} rows has a bitmap of {alive.bits.size} bytes")
    return Held(Segment(vectors, ids, index, entry.index_type), alive, entry)


def write_alive(directory: Directory, held: Held) -> Held:
    """Put which rows are alive on disk, where that has changed."""
    if held.entry is None:
        raise ValueError("a segment in memory has no files")
    is_whole = held.alive.size == len(held.segment)
    alive = None if is_whole else directory.write(".alive", [held.alive.bits])
    return replace(held, entry=replace(held.entry, alive=alive))
