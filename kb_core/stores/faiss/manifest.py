"""The manifest: which files make up the store, and what they hold."""

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from kb_core.stores.faiss.index import IndexType, Tuning

FORMAT = 1


@dataclass(frozen=True)
class FileEntry:
    """A file that the manifest vouches for.

    Attributes:
        name: In the store's directory.
        size: In bytes.
        crc: CRC-32 of what `Directory` checks of it.
    """

    name: str
    size: int
    crc: int


@dataclass(frozen=True)
class SegmentEntry:
    """The files of one segment; `index` and `tuning` are None where it is scanned exactly."""

    n: int
    index_type: IndexType
    vectors: FileEntry
    ids: FileEntry
    index: FileEntry | None = None
    tuning: Tuning | None = None
    alive: FileEntry | None = None

    def files(self) -> list[FileEntry]:
        """Every file that it has."""
        return [file for file in (self.vectors, self.ids, self.index, self.alive) if file is not None]


@dataclass(frozen=True)
class Manifest:
    """One generation of the store.

    Attributes:
        generation: A random name; another process's write has another one.
        revision: What `VectorStore.revision` says after loading it.
        dimension: Of the vectors; None where there never was one.
        segments: From the oldest.
    """

    generation: str
    revision: int
    dimension: int | None
    segments: tuple[SegmentEntry, ...]

    def dumps(self) -> bytes:
        """Give it as JSON with a checksum of itself."""
        body = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)
        return json.dumps({"crc": zlib.crc32(body.encode()), "manifest": body}).encode()

    @classmethod
    def loads(cls, data: bytes) -> "Manifest":
        """Read it back.

        Raises:
            ValueError, KeyError, TypeError: It is damaged, or of another format.
        """
        outer = json.loads(data)
        body = outer["manifest"]
        if zlib.crc32(body.encode()) != outer["crc"]:
            raise ValueError("its checksum does not fit")
        fields = json.loads(body)
        if fields["format"] != FORMAT:
            raise ValueError(f"it has format {fields['format']}, this release writes {FORMAT}")
        segments = tuple(_segment(each) for each in fields["segments"])
        return cls(fields["generation"], fields["revision"], fields["dimension"], segments)


def _segment(fields: dict[str, Any]) -> SegmentEntry:
    files = {key: fields[key] and FileEntry(**fields[key]) for key in ("vectors", "ids", "index", "alive")}
    tuning = fields["tuning"] and Tuning(**fields["tuning"])
    return SegmentEntry(n=fields["n"], index_type=fields["index_type"], tuning=tuning, **files)
