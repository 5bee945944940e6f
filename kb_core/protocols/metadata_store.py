"""The truth: documents, chunks, embeddings, settings, and the log of what changed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kb_core.documents import Chunk, Document, text_hash
from kb_core.filters import Filter
from kb_core.protocols.matching import Vectors


@dataclass(frozen=True)
class DocumentWrite:
    """A document and all of its chunks, to be stored whole in place of any former version."""

    document: Document
    chunks: Sequence[Chunk]
    content_hash: str
    """Of content, source, metadata and chunking: equal means nothing to do."""

    @cached_property
    def text_hashes(self) -> list[str]:
        """`text_hash` of the content of each chunk."""
        return [text_hash(chunk.content) for chunk in self.chunks]


@dataclass(frozen=True)
class DocumentInfo:
    """A row of `MetadataStore.documents`: a document without its text."""

    id: str
    source: str
    metadata: dict[str, Any]
    n_chunks: int
    n_chars: int
    content_hash: str
    added_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Changes:
    """What a view must do next: delete, then upsert; after the last one, `commit(revision)`."""

    revision: int
    is_reset: bool = False
    """The log does not reach back far enough: clear the view first."""
    deleted: Sequence[str] = ()
    chunks: Sequence[Chunk] = ()
    vectors: Vectors | None = None
    """(len(chunks), d) where vectors were asked for."""


class Neighbours(NamedTuple):
    """The ids of the chunks before and after a chunk in its document; None at its ends."""

    previous: str | None
    next: str | None


@runtime_checkable
class MetadataStore(Protocol):
    """The truth: documents, chunks, embeddings by content hash, settings, and the log of what changed.

    Every method that writes is one transaction, done (also on disk) when it returns, and returns the new revision.
    Writers in other threads and processes wait for one another, `StoreLockedError` after a bounded time.

    Raises:
        StoreReadOnlyError: From every method that writes, where the store was opened read-only.
    """

    def revision(self) -> int:
        """The number of the latest commit, 0 for an empty store; sees other processes' commits. Microseconds."""
        ...

    def put(self, writes: Sequence[DocumentWrite], *, fingerprint: str, embeddings: Mapping[str, Vectors]) -> int:
        """Store documents whole, each in place of its former version, with the embeddings that they need.

        Chunks that stay the same (id and content) are not logged as changed. A failure stores none of them.

        Args:
            writes: A document id given twice counts once, the last.
            fingerprint: The embedder's.
            embeddings: `text_hash(content)` to its vector (d,). A text whose embedding is stored need not be in it; a
                chunk whose text has none at all is stored as pending.
        """
        ...

    def put_embeddings(self, fingerprint: str, embeddings: Mapping[str, Vectors]) -> None:
        """Keep embeddings by text hash, for later; a text that has one under the fingerprint keeps it. No revision."""
        ...

    def attach_embeddings(self, fingerprint: str, *, switch_to: Mapping[str, Any] | None = None) -> int:
        """Give pending chunks the embeddings that are kept by now; they are logged as changed.

        Args:
            fingerprint: The embedder's.
            switch_to: Settings to keep in the same commit; with them, every chunk takes the embedding of this
                fingerprint in place of what it had, or is pending, and views start over.
        """
        ...

    def update_chunk(self, chunk_id: str, content: str, *, fingerprint: str, embeddings: Mapping[str, Vectors]) -> int:
        """Replace one chunk's text, id and place kept. Raises `KeyError` for an unknown id."""
        ...

    def delete_chunks(self, ids: Sequence[str]) -> int:
        """Remove chunks, and documents that lose their last one with them. Returns how many chunks were there.

        The content hash of a document that loses some is forgotten, so that adding it again brings them back.
        """
        ...

    def delete_documents(self, ids: Sequence[str]) -> int:
        """Erase documents, their text and their chunks. Returns how many were there."""
        ...

    def clear(self) -> None:
        """Erase every document, chunk and embedding. Settings stay."""
        ...

    def get_document(self, document_id: str) -> Document | None:
        """Give a document with its text, or None."""
        ...

    def documents(self, *, source: str | None = None) -> Iterator[DocumentInfo]:
        """List documents by source, then id; only those of `source` where it is given."""
        ...

    def content_hashes(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Map those of the document ids that are stored to their content hash."""
        ...

    def chunks(self, document_id: str) -> list[Chunk]:
        """List a document's chunks by index; `[]` for an unknown id."""
        ...

    def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """Give chunks by id, in the order asked; unknown ids are left out. Fresh objects."""
        ...

    def neighbours(self, ids: Sequence[str]) -> dict[str, Neighbours]:
        """Map chunk ids to the chunks around each, without reading these; unknown ids are left out."""
        ...

    def embeddings(self, fingerprint: str, text_hashes: Sequence[str]) -> dict[str, Vectors]:
        """Map those of the text hashes that are cached under the fingerprint to their vectors."""
        ...

    def select(self, where: Filter) -> frozenset[str]:
        """Find the ids of every chunk whose metadata (with `source`) satisfies the filter."""
        ...

    def changes(self, since: int, *, with_vectors: bool, batch_size: int = 2048) -> Iterator[Changes]:
        """Yield what changed after revision `since`, at least one item, in bounded batches of one snapshot.

        Args:
            since: The revision of the view; 0 gives everything.
            with_vectors: Join the vectors; chunks that have none yet are left out. Else every chunk, without.
            batch_size: Chunks an item.
        """
        ...

    def unembedded(self, fingerprint: str | None = None) -> Iterator[str]:
        """Yield the distinct texts of chunks that have no embedding under the fingerprint; None: of pending chunks."""
        ...

    def counts(self) -> dict[str, int]:
        """Count `documents`, `chunks`, and `pending`: the chunks that wait for their embedding."""
        ...

    def get_setting(self, key: str) -> Any:
        """Give the JSON value kept under the key, or None."""
        ...

    def set_settings(self, values: Mapping[str, Any]) -> None:
        """Keep JSON values under keys, all or none. Not a revision: no view depends on a setting."""
        ...

    def close(self) -> None:
        """Let go of files. Closing twice is harmless."""
        ...
