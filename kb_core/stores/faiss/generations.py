"""The store's generations: what is on disk, and how one follows another."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from kb_core.errors import StoreError
from kb_core.stores.faiss.directory import Directory
from kb_core.stores.faiss.index import IndexType
from kb_core.stores.faiss.manifest import Manifest
from kb_core.stores.faiss.merge import Held, Merge, open_segment, segments_to_merge, write_alive
from kb_core.stores.faiss.tail import TailView

_log = logging.getLogger(__name__)

_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)  # the last is FAISS's
_N_READS = 5
_CLEAR_WAIT_S = 5.0


@dataclass(frozen=True)
class Generation:
    """The segments that a store consists of, and how far they reach.

    Attributes:
        held: The segments; no id is alive in two of them.
        revision: See `View.revision`.
        dimension: Of the vectors; None for a store that never held one.
    """

    held: tuple[Held, ...] = ()
    revision: int = 0
    dimension: int | None = None


class Generations:
    """Loads, follows and removes generations. The store's write lock guards it.

    Args:
        directory: Where they are kept; None, or a read-only one: in memory.
        index_type: For the segments that are written.
    """

    def __init__(self, directory: Directory | None, index_type: IndexType) -> None:
        self._directory = directory
        self._index_type = index_type
        self._is_written = directory is not None and not directory.read_only
        self._name: str | None = None  # of the generation on disk that the store goes on from

    @property
    def is_written(self) -> bool:
        """Whether generations go to disk."""
        return self._is_written

    def load(self) -> Generation:
        """Open what is on disk. What is damaged is removed, with one warning; it can be derived anew."""
        if self._directory is None:
            return Generation()
        try:
            return self._open(self._directory)
        except _DAMAGE as error:
            _log.warning("the vector store in %s is damaged (%s): it starts anew", self._directory.path, error)
        if self._is_written:
            self._remove(self._directory, wait_s=0.0)
        return Generation()

    def follow(self, last: Generation, tail: TailView | None, *, may_adopt: bool) -> Generation | None:
        """Make the generation after `last`, in which the tail is part of a segment.

        Args:
            last: What the store holds, but for the tail.
            tail: What came since.
            may_adopt: If another process has published a generation that is as new, take that. Only right at a commit:
                in the midst of a replay, what was replayed so far would be lost.

        Returns:
            None where another process is writing just now: try again later.

        Raises:
            OSError: It could not be written; nothing has changed.
        """
        n_tail = 0 if tail is None else int(tail.alive.sum())
        to_merge = segments_to_merge(last.held, n_tail, self._index_type)
        if self._directory is None or not self._is_written:
            return Generation(self._merged(last.held, to_merge, tail), last.revision, last.dimension)
        with self._directory.lock() as is_held:
            if not is_held:
                return None
            present = self._present(self._directory)
            if present is not None and present.generation != self._name:
                adopted = self._adopt(present, last.revision) if may_adopt else None
                if adopted is not None:
                    return adopted
            if present is None or present.generation != self._name:
                to_merge = list(last.held)  # their files may be gone
            return self._publish(self._directory, last, self._merged(last.held, to_merge, tail))

    def clear(self) -> None:
        """Remove what is on disk.

        Raises:
            StoreError: Another process keeps writing.
        """
        if self._directory is not None and self._is_written and not self._remove(self._directory, wait_s=_CLEAR_WAIT_S):
            raise StoreError("another process keeps writing the vector store; it could not be cleared on disk")
        self._name = None

    def _open(self, directory: Directory) -> Generation:
        manifest = directory.read_manifest()
        for _ in range(_N_READS):
            if manifest is None:
                return Generation()
            try:
                return self._opened(directory, manifest)
            except _DAMAGE:
                # A writer may have replaced the files between the reading of the manifest and theirs.
                latest = directory.read_manifest()
                if latest == manifest:
                    raise
                manifest = latest
        raise StoreError("the vector store changes faster than it can be opened")

    def _opened(self, directory: Directory, manifest: Manifest) -> Generation:
        held = tuple(open_segment(directory, entry, manifest.dimension or 0) for entry in manifest.segments)
        self._name = manifest.generation
        return Generation(held, manifest.revision, manifest.dimension)

    def _present(self, directory: Directory) -> Manifest | None:
        try:
            return directory.read_manifest()
        except _DAMAGE:
            return None

    def _adopt(self, present: Manifest, revision: int) -> Generation | None:
        if self._directory is None or present.revision < revision:
            return None
        try:
            return self._opened(self._directory, present)
        except _DAMAGE:
            return None

    def _merged(self, held: Sequence[Held], to_merge: Sequence[Held], tail: TailView | None) -> tuple[Held, ...]:
        directory = self._directory if self._is_written else None
        merge = Merge(to_merge, tail)
        kept = [each for each in held if each not in to_merge]
        return (*kept, merge.build(self._index_type, directory)) if merge.ids else tuple(kept)

    def _publish(self, directory: Directory, last: Generation, held: Sequence[Held]) -> Generation:
        written = tuple(write_alive(directory, each) for each in held)
        entries = tuple(each.entry for each in written if each.entry is not None)
        name = secrets.token_hex(8)
        directory.publish(Manifest(name, last.revision, last.dimension, entries))
        self._name = name
        return Generation(written, last.revision, last.dimension)

    def _remove(self, directory: Directory, *, wait_s: float) -> bool:
        try:
            with directory.lock(wait_s) as is_held:
                if is_held:
                    directory.remove()
                return is_held
        except OSError as error:
            raise StoreError(f"the vector store in {directory.path} cannot be written: {error}") from error
