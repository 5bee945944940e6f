"""LocalKB: a knowledge base in this process, on SQLite, FAISS and BM25; no server."""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kb_core.documents import AddReport, Chunk, Document, SearchResult, clean_text
from kb_core.embedders.wrapping import wrap_embedder
from kb_core.embedding import reembed, update_chunk
from kb_core.explanation import Explanation
from kb_core.identity import settings_of
from kb_core.ingest import Ingest
from kb_core.opening import Place, Stores, check_name, home
from kb_core.parts import assemble
from kb_core.protocols import DocumentInfo, KeywordStore, MetadataStore, Neighbours, VectorStore
from kb_core.retrieval import Request, request_of
from kb_core.settings import KEEP, Keep, given_settings
from kb_core.threads import async_twin
from kb_core.tool import KBTool


class LocalKB:
    """A knowledge base in this process: documents go in, scored chunks come out.

    Everything is kept in `<path>/<name>/`: `kb.sqlite` holds the documents, `index/` what is derived of them and can be
    deleted at any time. Any number of threads may share one object, and any number of processes one folder: a write is
    on disk when the call returns, and the next search anywhere sees it.

    Settings that are left out are those the knowledge base was made with; for a new one, the defaults named here. Every
    public verb has an awaitable twin: `await kb.asearch(…)`, `await kb.aadd(…)`.

    Args:
        name: What it is called: a folder of that name is made, and the tool is `search_<name>`.
        path: The folder that holds knowledge bases; `$KB_HOME` or `.kb` under the working directory.
        embedder: Turns text into vectors: an `Embedder`, an object or function with `embed(list) -> list`, a LangChain
            style object. None: the one that the knowledge base was made with; for a new one FastEmbed, OpenAI, static
            word vectors or hashed n-grams, the first that works here.
        chunk_size: Characters a chunk, at most; 512.
        chunk_overlap: Characters that neighbouring chunks share, at most; 50.
        persist: False keeps everything in memory, and nothing after `close`.
        read_only: Write nothing, create nothing; works on a read-only file system.
        search_type: `"hybrid"` (default), `"vector"` or `"keyword"`.
        alpha: The vector matcher's weight in hybrid search, in [0, 1]; None: what suits the embedder, 0.7 for a
            semantic model.
        fusion: `"minmax"` (default), `"rrf"` or `"dbsf"`, see `kb_core.fusion`.
        index_type: Of the vector index: `"auto"` (default), `"flat"`, `"ivf"` or `"hnsw"`, see `FaissVectorStore`.
        language: Whose stems and stop words the keyword search knows; `"en"`; None for none.
        description: What is in it, for a model that chooses among tools.
        collapse_duplicates: Return the same text once, however many chunks hold it.
        vector_store: The user's own `VectorStore`; None: `FaissVectorStore`.
        keyword_store: The user's own `KeywordStore`; None: `TantivyKeywordStore`.
        metadata_store: The user's own `MetadataStore`; None: `SqliteMetadataStore`.

    Raises:
        ValueError, TypeError: An argument is out of range; nothing was created.
        SourceNotFoundError: `read_only`, and there is no such knowledge base.
        StoreVersionError: A newer release wrote it.
        EmbedderMismatchError: It was embedded with another embedder.
    """

    def __init__(
        self,
        name: str,
        *,
        path: str | Path | None = None,
        embedder: object | None = None,
        chunk_size: int | None = None,
        chunk_overlap: int | None = None,
        persist: bool = True,
        read_only: bool = False,
        search_type: str | None = None,
        alpha: float | None = None,
        fusion: str | None = None,
        index_type: str | None = None,
        language: str | Keep | None = KEEP,
        description: str | None = None,
        collapse_duplicates: bool = True,
        vector_store: VectorStore | None = None,
        keyword_store: KeywordStore | None = None,
        metadata_store: MetadataStore | None = None,
    ) -> None:
        self._name = check_name(name)
        given = given_settings(
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            search_type=search_type,
            alpha=alpha,
            fusion=fusion,
            index_type=index_type,
            language=language,
            description=description,
        )
        self._place = Place(None if not persist else Path(path) if path is not None else home(), name, read_only)
        stores = Stores(vector_store, keyword_store, metadata_store)
        parts = assemble(self._place, given, stores, embedder, collapse_duplicates=collapse_duplicates)
        self._backend = stores.backend
        self._truth, self._settings, self._embedder = parts.truth, parts.settings, parts.slot
        self._views, self._retriever = parts.views, parts.retriever
        # Holds the parts and not this object, so that what the user forgot to close is closed when it is collected.
        self._finalizer = weakref.finalize(self, parts.close)

    # -- what it is

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def description(self) -> str:
        """What is in it, for a model that chooses among tools; may be empty."""
        return self._settings.description

    def __repr__(self) -> str:
        return f"LocalKB({self._name!r}, at={str(self._place.folder)!r})"

    def status(self) -> dict[str, Any]:
        """Tell what the knowledge base holds and how it is set up; loads no model.

        Returns:
            JSON-safe: `name`, `path`, `documents`, `chunks`, `not_embedded` (chunks that wait for their vector),
            `embedder` (a fingerprint, or None), `revision`, `size_bytes` on disk, and the settings.
        """
        counts = self._truth.counts()
        recorded = self._embedder.recorded()
        return {
            "name": self._name,
            "path": None if self._place.folder is None else str(self._place.folder),
            "documents": counts["documents"],
            "chunks": counts["chunks"],
            "not_embedded": counts["pending"],
            "embedder": None if recorded is None else recorded["fingerprint"],
            "revision": self._truth.revision(),
            "size_bytes": self._place.size(),
            **asdict(self._settings),
        }

    # -- putting in

    def add(
        self,
        source: str | Path,
        *,
        metadata: Mapping[str, Any] | None = None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        progress: bool | None = None,
    ) -> AddReport:
        """Add a file, a folder with everything below it, or a text.

        A `Path` is a file or a folder. A `str` is one too where it names something on disk; where it looks like a path
        (see `kb_core.loaders.looks_like_path`) and names nothing, it is an error; any other `str` is text. Use
        `add_text` for a text that might be taken for a path. What was added before and has not changed costs nothing;
        what has changed takes the place of its former version.

        Args:
            source: The path or the text.
            metadata: Given to every document of it.
            include: Globs, as in `.gitignore`; only files that match one are added. A folder only.
            exclude: Globs; files that match one are left out. A folder only.
            progress: Draw a bar; None: on a terminal, for long work.

        Returns:
            What was done; a file that could not be read stands in `failed`, and the others went in.

        Raises:
            SourceNotFoundError: The path is not there.
            UnsupportedFormatError, LoaderError: The one file that was named cannot be read.
            EmbedderError: The embedder failed; what came before is stored.
        """
        from kb_core.adding import add_path, resolve

        path = resolve(source)
        if path is None:
            return self.add_text(str(source), metadata=metadata)
        ingest = self._ingest()
        add_path(ingest, path, metadata=metadata, include=include, exclude=exclude, progress=progress)
        return self._finish(ingest)

    def add_text(
        self,
        text: str,
        *,
        source: str = "",
        document_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AddReport:
        """Add one text as a document. Blank text adds nothing.

        Args:
            text: The content.
            source: Where it is from. A text of the same source added later takes its place.
            document_id: Identifies it; None: derived from the source, without one from text and metadata.
            metadata: Any JSON values, dates, decimals.

        Raises:
            TypeError, ValueError: `text` is no str, or the metadata cannot be kept; nothing was stored.
            EmbedderError: The embedder failed.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}")
        document = Document(id=document_id or "", content=text, source=source, metadata=dict(metadata or {}))
        return self.add_documents([document])

    def add_documents(self, documents: Iterable[Document], *, progress: bool | None = None) -> AddReport:
        """Add documents.

        Documents of one source without ids, such as the pages of a file, are kept side by side; those that the same
        source had from an earlier call give way to them.

        Args:
            documents: All are checked before the first is stored.
            progress: Draw a bar; None: on a terminal, for long work.

        Raises:
            TypeError: One of them is no `Document`; nothing was stored.
            EmbedderError: The embedder failed; what came before is stored.
        """
        from kb_core.adding import add_documents

        ingest = self._ingest()
        add_documents(ingest, documents, progress=progress)
        return self._finish(ingest)

    def _ingest(self) -> Ingest:
        return Ingest(self._truth, self._embedder, self._settings.chunker, self._views)

    def _finish(self, ingest: Ingest) -> AddReport:
        ingest.finish()
        if ingest.report.chunks:
            self._views.catch_up()
        return ingest.report

    # -- taking out

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        vector_query: Sequence[str] | Sequence[float] | None = None,
    ) -> list[SearchResult]:
        """Rank chunks for a query, best first, ties by chunk id. See `KnowledgeBase.search`.

        Hybrid search takes `top_k * 3` candidates of each matcher and fuses them, so a fused score is relative to those
        candidates: compare it within one result, not between searches. `vector_score` and `keyword_score` are raw.

        Raises:
            ValueError, TypeError: An argument is out of range or of another type.
            InvalidFilterError: `where` is not in the dialect.
            EmbedderError: The query could not be embedded.
            EmbedderMismatchError: The chunks were embedded with another embedder.
            StoreError: A store is damaged beyond what can be rebuilt, or closed.
        """
        given: dict[str, Any] = {"search_type": search_type, "alpha": alpha, "where": where, "min_score": min_score}
        given["vector_query"] = vector_query
        return self._retriever.search(self._request(query, top_k, given))

    def explain(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
    ) -> list[Explanation]:
        """Search, and say of each hit how its score came about: raw scores, what they count, weights.

        Arguments and errors as in `search`, which gives the same hits; there is no `vector_query`.
        """
        given = {"search_type": search_type, "alpha": alpha, "where": where, "min_score": min_score}
        return self._retriever.explain(self._request(query, top_k, given))

    def _request(self, query: object, top_k: object, given: Mapping[str, Any]) -> Request:
        return request_of(asdict(self._settings), query, top_k, given)

    def as_tool(self, **options: Any) -> KBTool:
        """Give the search as a tool for a model; options as in `KBTool`."""
        search_type = options.pop("search_type", None) or self._settings.search_type
        return KBTool(self, **{"backend": self._backend, "search_type": search_type, **options})

    def documents(self, *, source: str | None = None) -> list[DocumentInfo]:
        """List the documents, without their text, by source; only those of `source` where it is given."""
        return list(self._truth.documents(source=source))

    def get_document(self, document_id: str) -> Document | None:
        """Give a document with its text, or None."""
        return self._truth.get_document(document_id)

    def chunks(self, document_id: str) -> list[Chunk]:
        """List a document's chunks in their order; `[]` for an unknown id."""
        return self._truth.chunks(document_id)

    def get_chunk(self, chunk_id: str) -> Chunk | None:
        """Give a chunk, or None."""
        found = self._truth.get_chunks([chunk_id])
        return found[0] if found else None

    def neighbours(self, chunk_ids: Sequence[str]) -> dict[str, Neighbours]:
        """Map chunk ids to the ids of the chunks before and after each in its document; unknown ids are left out."""
        return self._truth.neighbours(chunk_ids)

    # -- changing

    def update(self, chunk_id: str, content: str) -> Chunk:
        """Replace the text of one chunk; its id and place stay, the document's own text too.

        Raises:
            ValueError: There is no such chunk, or the text is blank.
            EmbedderError: The embedder failed; nothing was changed.
        """
        if not isinstance(content, str):
            raise TypeError(f"content must be a str, got {type(content).__name__}")
        content = clean_text(content)
        if not content.strip():
            raise ValueError("the content of a chunk cannot be blank; use delete")
        if self.get_chunk(chunk_id) is None:
            raise ValueError(f"there is no chunk with the id {chunk_id!r}")
        update_chunk(self._truth, self._embedder.record(), chunk_id, content)
        return self._truth.get_chunks([chunk_id])[0]

    def delete(self, *chunk_ids: str) -> int:
        """Remove chunks; unknown ids are ignored. A document that loses its last one is erased.

        Returns:
            How many were there.
        """
        return self._truth.delete_chunks(chunk_ids)

    def delete_document(self, *document_ids: str) -> int:
        """Erase documents with their text and chunks; unknown ids are ignored.

        Returns:
            How many documents were there.
        """
        return self._truth.delete_documents(document_ids)

    def delete_by_source(self, source: str) -> int:
        """Erase every document of a source.

        Returns:
            How many documents were there.
        """
        return self._truth.delete_documents([found.id for found in self._truth.documents(source=clean_text(source))])

    def clear(self) -> None:
        """Erase everything that was added, embeddings included; settings stay, and any embedder may follow."""
        self._truth.clear()
        self._embedder.forget()

    def reembed(self, embedder: object, *, progress: bool | None = None) -> int:
        """Move the knowledge base to another embedder.

        Searches go on with the old vectors until one commit switches them all. Stopped half way, a second call goes on
        where the first was.

        Args:
            embedder: Of any shape that `LocalKB` takes.
            progress: Draw a bar; None: on a terminal, for long work.

        Returns:
            How many distinct texts were embedded.

        Raises:
            EmbedderError: The new embedder failed; nothing was switched, and what it had done is kept.
        """
        target = wrap_embedder(embedder)
        n_embedded = reembed(self._truth, target, settings_of(target), progress=progress)
        self._embedder.adopt(target)
        return n_embedded

    # -- the end

    def close(self) -> None:
        """Persist the indexes and let go of files. Closing twice is harmless; any other use is a `StoreError`."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    aadd = async_twin(add)
    aadd_text = async_twin(add_text)
    aadd_documents = async_twin(add_documents)
    asearch = async_twin(search)
    aexplain = async_twin(explain)
    adocuments = async_twin(documents)
    aget_document = async_twin(get_document)
    achunks = async_twin(chunks)
    aget_chunk = async_twin(get_chunk)
    aneighbours = async_twin(neighbours)
    aupdate = async_twin(update)
    adelete = async_twin(delete)
    adelete_document = async_twin(delete_document)
    adelete_by_source = async_twin(delete_by_source)
    aclear = async_twin(clear)
    areembed = async_twin(reembed)
    astatus = async_twin(status)
    aclose = async_twin(close)
