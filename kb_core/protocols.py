"""The contract: what a knowledge base is made of, and what it offers.

Everything here is structural: an object with these methods is a store, no base class needed. The suites in
`kb_core.testing` check an implementation against what is written here.

Rules that hold for every store:

* Ids are strings, any string. An id upserted twice is held once; a delete ignores ids it does not know.
* A search returns at most `top_k` hits, best first, ties in order of id; fewer only where no more match.
  `top_k=0` gives `[]`; an empty store gives `[]`.
* A call that raises has changed nothing.
* Every method may be called from any thread, searches while writing included.
* `revision` and `commit` let a store that is derived from the truth say how far it has read: see `View`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kb_core.documents import Chunk, Document, SearchResult
from kb_core.filters import Filter

if TYPE_CHECKING:
    from kb_core.tool import KBTool

Vectors = NDArray[np.float32]
"""float32, shape (n, d) or (d,)."""


class Hit(NamedTuple):
    """A chunk id with a matcher's raw score, larger is better."""

    id: str
    score: float


class Selection:
    """The chunks that a search may return.

    A store that keeps metadata itself may push `where` down to its engine; one that does not reads `ids`. Both mean the
    same set. `ids` is worked out on first use and kept, so a store may also key a cache of its own (a bitmap, say) on
    the identity of the selection.

    Args:
        ids: The chunk ids, or a function that finds them.
        where: The filter that they satisfy; None where the set is not the answer of a filter.
    """

    def __init__(self, ids: Collection[str] | Callable[[], Collection[str]], where: Filter | None = None) -> None:
        self._ids = ids
        self.where = where

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids, found on first use."""
        found = self._ids() if callable(self._ids) else self._ids
        return found if isinstance(found, frozenset) else frozenset(found)


@runtime_checkable
class Embedder(Protocol):
    """Turns text into unit vectors. Called from any thread; never with a blank text.

    Attributes:
        fingerprint: Names the vector space: class, model, dimension, prefixes. Two embedders whose vectors may be
            compared have the same one; any two that may not have different ones, also at equal dimension.
        default_alpha: The weight of the vector matcher in hybrid search that suits this embedder, in [0, 1]; 0.7 for a
            semantic model.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def default_alpha(self) -> float: ...

    def embed_documents(self, texts: list[str]) -> Vectors:
        """Embed passages.

        Returns:
            float32, shape (len(texts), d), rows in the order of the texts, unit length; finite. A text without any
            feature may give a zero row.

        Raises:
            EmbedderError: The model or service failed; says after how many texts.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Embed one query: float32, shape (d,), unit length. Raises like `embed_documents`."""
        ...


class View(Protocol):
    """A store that can be derived from the truth.

    Each commit of the truth has a revision, 1, 2, 3, …; a view is brought up to date by `delete` and `upsert` of what
    changed, then `commit(revision)`. Replaying changes that a view holds already must be harmless.
    """

    @property
    def revision(self) -> int:
        """The revision that the store has been brought up to; 0 for a new, lost or damaged one."""
        ...

    def commit(self, revision: int) -> None:
        """Note that the store now mirrors the truth up to `revision`.

        A store on disk may persist now or later, but what `revision` says after a restart is what it then holds.
        """
        ...

    def count(self) -> int:
        """Count the chunks that the store holds."""
        ...

    def clear(self) -> None:
        """Forget everything; `revision` becomes 0."""
        ...

    def close(self) -> None:
        """Persist what is worth it and let go of files and memory. Closing twice is harmless."""
        ...


@runtime_checkable
class VectorStore(View, Protocol):
    """Nearest neighbours by cosine."""

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Store one vector a chunk; a chunk id that is there already gets the new one.

        Args:
            chunks: An in-process store needs only their ids; an engine that filters keeps their metadata.
            vectors: float32, (len(chunks), d), finite, rows of any length (they are normalised here); a zero row is
                stored and has cosine 0 with everything.

        Raises:
            ValueError: Another count, another dimension than the store's, or a value that is not finite.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove chunks by id; unknown ids are ignored."""
        ...

    def search(self, vector: Vectors, top_k: int, *, within: Selection | None = None) -> list[Hit]:
        """Find the chunks with the largest cosine.

        Args:
            vector: float32, (d,), finite, of any length.
            top_k: 0 or more.
            within: Only these chunks; if k of them are in the store, k come back. None: all.

        Returns:
            Scores are cosines in [-1, 1]: identical 1, orthogonal 0, opposite -1.

        Raises:
            ValueError: `vector` has another dimension than the store.
        """
        ...


@runtime_checkable
class KeywordStore(View, Protocol):
    """BM25 over the terms of `kb_core.analysis`."""

    def upsert(self, chunks: Sequence[Chunk]) -> None:
        """Index the content of each chunk; a chunk id that is there already is replaced."""
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove chunks by id; unknown ids are ignored."""
        ...

    def search(self, query: str, top_k: int, *, within: Selection | None = None) -> list[Hit]:
        """Find the chunks that share terms with the query.

        Args:
            query: Text, never syntax. Without any term (blank, punctuation, stop words only) it finds nothing.
            top_k: 0 or more.
            within: Only these chunks; if k of them match, k come back. None: all.

        Returns:
            Hits that share at least one term with the query; scores are BM25 (k1 = 1.2, b = 0.75) with
            idf = ln(1 + (N - n + 0.5) / (n + 0.5)), so always above 0.
        """
        ...


@dataclass(frozen=True)
class DocumentWrite:
    """A document and all of its chunks, to be stored whole in place of any former version."""

    document: Document
    chunks: Sequence[Chunk]
    content_hash: str
    """Of content, source, metadata and chunking: equal means nothing to do."""


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


@runtime_checkable
class KnowledgeBase(Protocol):
    """What every knowledge base offers, in this process or over HTTP, and all that an adapter knows."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """One or two sentences for a model that chooses among tools."""
        ...

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> list[SearchResult]:
        """Rank chunks for a query, best first.

        Args:
            query: Text; blank gives `[]`.
            top_k: How many at most; 0 gives `[]`.
            search_type: `"hybrid"`, `"vector"` or `"keyword"`; None: the knowledge base's own setting.
            alpha: The vector matcher's weight in hybrid search, in [0, 1]; None: the setting, else the embedder's.
            where: A filter over metadata, see `kb_core.filters`.
            min_score: Drop hits whose returned `score` is lower.

        Raises:
            ValueError, TypeError: An argument is out of range or of another type.
            InvalidFilterError: `where` is not in the dialect.
            KBError: Anything else that is expected to go wrong; the message is safe to show a model.
        """
        ...

    async def asearch(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> list[SearchResult]:
        """Do as `search`, without blocking the event loop."""
        ...

    def as_tool(self) -> "KBTool":
        """Give the search as a tool for a model."""
        ...

    def status(self) -> dict[str, Any]:
        """Tell what it holds, JSON-safe."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless."""
        ...
