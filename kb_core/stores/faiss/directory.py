"""The store's directory: files that are written once, and a manifest that names those that count."""

import logging
import mmap
import os
import secrets
import zlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kb_core.stores.faiss.manifest import FileEntry, Manifest
from kb_core.stores.folders import make_private
from kb_core.stores.lock import file_lock

_log = logging.getLogger(__name__)

_MANIFEST = "manifest.json"
_LOCK = "lock"
_SUFFIXES = (".vectors", ".ids", ".index", ".alive", ".tmp")
_HEAD = 4096  # bytes
_CHUNK = 1 << 20  # bytes

Bytes = NDArray[np.uint8]


class Directory:
    """Files on disk, 0600 in a directory 0700.

    Files are complete and on disk before the manifest that names them takes its place by a rename; files that no
    manifest names are removed at the next write. A reader that has old files mapped goes on reading them.

    Args:
        path: Made if it is not there, unless read-only.
        read_only: Write nothing, not even a lock file.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        if not read_only:
            make_private(path)

    def lock(self, wait_s: float = 0.0) -> AbstractContextManager[bool]:
        """Keep other processes from writing; see `file_lock`."""
        return file_lock(self.path / _LOCK, wait_s=wait_s)

    def read_manifest(self) -> Manifest | None:
        """Give the present manifest; None where there is none.

        Raises:
            ValueError, KeyError, TypeError, OSError: It is damaged.
        """
        try:
            data = (self.path / _MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Manifest.loads(data)

    def write(self, suffix: str, blocks: Iterable[Bytes]) -> FileEntry:
        """Write a new file, flushed to disk.

        Written, not mapped: a full disk is then an `OSError`, and not a signal that kills the process.
        """
        name = f"{secrets.token_hex(8)}{suffix}"
        size, crc = 0, 0
        with open(self.path / name, "xb", opener=_private) as file:
            for block in blocks:
                if suffix != ".vectors":
                    crc = zlib.crc32(block.data, crc)
                elif size < _HEAD:
                    crc = zlib.crc32(block[: _HEAD - size].data, crc)
                file.write(block.data)
                size += block.size
            file.flush()
            os.fsync(file.fileno())
        return FileEntry(name, size, crc)

    def check(self, entry: FileEntry) -> Path:
        """Find a file, and check that it is the one that was written.

        Vectors only by size and first 4 KB, so that opening reads none of them; the others whole, since a wrong byte in
        them could lead FAISS out of bounds.

        Raises:
            OSError, ValueError: It is missing, or another.
        """
        path = self.path / Path(entry.name).name
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != entry.size:
                raise ValueError(f"{entry.name} does not have {entry.size} bytes")
            crc = 0
            if entry.name.endswith(".vectors"):
                crc = zlib.crc32(file.read(_HEAD))
            else:
                while block := file.read(_CHUNK):
                    crc = zlib.crc32(block, crc)
        if crc != entry.crc:
            raise ValueError(f"{entry.name} is damaged")
        return path

    def map(self, entry: FileEntry) -> Bytes:
        """Map a file after `check`."""
        path = self.check(entry)
        if entry.size == 0:
            return np.empty(0, dtype=np.uint8)
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)

    def publish(self, manifest: Manifest) -> None:
        """Make this manifest the one that counts, and remove files that it does not name. Call under the lock."""
        temporary = self.path / f"{secrets.token_hex(8)}.tmp"
        with open(temporary, "xb", opener=_private) as file:
            file.write(manifest.dumps())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / _MANIFEST)
        if os.name == "posix":
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # the rename itself
            finally:
                os.close(descriptor)
        self._sweep({file.name for segment in manifest.segments for file in segment.files()})

    def remove(self) -> None:
        """Remove the manifest and every file. Call under the lock."""
        (self.path / _MANIFEST).unlink(missing_ok=True)
        self._sweep(set())

    def _sweep(self, keep: set[str]) -> None:
        for path in self.path.iterdir():
            if path.suffix in _SUFFIXES and path.name not in keep:
                try:
                    path.unlink()
                except OSError as error:  # Windows: somebody has it mapped; the next write tries again
                    _log.debug("could not remove %s: %s", path.name, error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
