"""The way in: documents, cut into chunks, embedded, stored whole, in batches that a failure cannot undo."""

import time
from collections.abc import Iterable, Sequence

from kb_core.chunking import Chunker
from kb_core.documents import AddReport, Document, text_hash
from kb_core.embedders.vectors import InvalidVectorError
from kb_core.embedding import EmbedderOutage, by_hash, embed_and_keep, embed_missing
from kb_core.errors import EmbedderError
from kb_core.feeding import Feeder
from kb_core.identification import chunk_document, identify, stale_ids
from kb_core.identity import EmbedderSlot, is_known
from kb_core.metadata import encode_metadata
from kb_core.progress import track
from kb_core.protocols import DocumentWrite, Embedder, MetadataStore, Vectors
from kb_core.views import Views

COMMIT_CHUNKS = 4096
"""A commit is made of documents with about so many chunks, or more where they are embedded in no time."""

MAX_COMMIT_CHUNKS = 16_384

COMMIT_S = 2.0
"""A commit may grow as long as it takes less, since each touches most pages of the indexes once."""


class Ingest:
    """One `add`: collects documents into commits.

    Args:
        truth: Where they go.
        slot: Holds the embedder; not asked for it before there is something to embed.
        chunker: What cuts them.
        views: Fed with what is stored.
    """

    def __init__(self, truth: MetadataStore, slot: EmbedderSlot, chunker: Chunker, views: Views) -> None:
        self.truth = truth
        self.report = AddReport()
        self._feeder = Feeder(truth, views)
        self._slot = slot
        self._chunker = chunker
        self._writes: dict[str, DocumentWrite] = {}
        self._n_chunks = 0
        self._commit_chunks = COMMIT_CHUNKS

    def add(
        self,
        documents: Iterable[Document],
        *,
        replaces: str | None = None,
        page_starts: Sequence[int] = (),
        progress: bool | None = False,
    ) -> None:
        """Take in documents; commits when enough have come together.

        Documents that a source had and has no longer are deleted.

        Args:
            documents: With or without ids, see `identify`.
            replaces: The source that they all come from, and are all of; None: they may come from many.
            page_starts: See `chunk_document`.
            progress: See `kb_core.progress.track`.

        Raises:
            EmbedderError: The embedder failed; what came before is stored.
        """
        identified, n_from = identify(documents)
        digests = [self._content_hash(document) for document in identified]  # all: what cannot be kept is found here
        starts = range(0, len(identified), COMMIT_CHUNKS)
        for start in track(starts, len(starts), "Adding", is_wanted=progress):
            batch = identified[start : start + COMMIT_CHUNKS]
            self._feeder.note_revision(is_first=not self._writes)
            known = self.truth.content_hashes([document.id for document in batch])
            for document, digest in zip(batch, digests[start:], strict=False):
                if digest == known.get(document.id):
                    self.report.unchanged += 1
                    continue
                self._take(document, digest, page_starts, is_known=document.id in known)
                if self._n_chunks >= self._commit_chunks:
                    self._commit()
        if replaces is None:
            stale = stale_ids(self.truth, n_from)
        else:
            present = {document.id for document in identified}
            stale = [found.id for found in self.truth.documents(source=replaces) if found.id not in present]
        if stale:
            self.truth.delete_documents(stale)

    def _take(self, document: Document, digest: str, page_starts: Sequence[int], *, is_known: bool) -> None:
        chunks = chunk_document(document, self._chunker, page_starts)
        if not chunks:
            self._take_blank(document, is_known=is_known)
            return
        if document.id in self._writes:
            self.report.warnings.append(f"the document id {document.id!r} was given twice: the last one counts")
            self.report.chunks -= len(self._writes[document.id].chunks)
        elif is_known:
            self.report.updated += 1
            self._feeder.skip()
        else:
            self.report.added += 1
        self._writes[document.id] = DocumentWrite(document, chunks, digest)
        self._n_chunks += len(chunks)
        self.report.chunks += len(chunks)

    def _take_blank(self, document: Document, *, is_known: bool) -> None:
        if is_known:
            self.truth.delete_documents([document.id])
            self.report.updated += 1
        if document.source:
            self.report.warnings.append(f"{document.source}: nothing in it but blanks")

    def _content_hash(self, document: Document) -> str:
        settings = f"{self._chunker.chunk_size}\0{self._chunker.chunk_overlap}"
        metadata = encode_metadata(dict(sorted(document.metadata.items())))
        return text_hash(f"{document.source}\0{metadata}\0{settings}\0{document.content}")

    def finish(self) -> AddReport:
        """Store what was taken, and embed what an earlier failure of the embedder left waiting.

        Raises:
            EmbedderError: See `add`.
        """
        self._commit()
        self._embed_pending()
        return self.report

    def _commit(self) -> None:
        """Embed what is new and store the documents taken so far, in one transaction.

        Raises:
            EmbedderError: The embedder failed. Where it did not answer, the documents are stored all the same and wait
                for their embedding; where it answered nonsense, they are not.
        """
        writes = list(self._writes.values())
        self._writes, self._n_chunks = {}, 0
        if not writes:
            return
        started = time.monotonic()
        self._store(writes)
        if time.monotonic() - started < COMMIT_S:
            self._commit_chunks = min(2 * self._commit_chunks, MAX_COMMIT_CHUNKS)

    def _store(self, writes: Sequence[DocumentWrite]) -> None:
        embedder = self._slot.get()
        texts = {
            digest: chunk.content
            for write in writes
            for digest, chunk in zip(write.text_hashes, write.chunks, strict=True)
        }
        embeddings: dict[str, Vectors] = {}
        failure: EmbedderError | None = None
        try:
            stored = self._embed_missing(embedder, texts, embeddings)
        except EmbedderOutage as outage:
            failure, stored = outage.error, {}
        except InvalidVectorError as error:
            raise _naming_chunk(error, writes) from error
        if is_known(embedder):
            self._slot.record()
        fingerprint = embedder.fingerprint if is_known(embedder) else ""
        revision = self.truth.put(writes, fingerprint=fingerprint, embeddings=embeddings)
        self._feeder.feed(revision, writes, {**stored, **embeddings})
        if failure is not None:
            reason = str(failure).rstrip(".")
            raise type(failure)(
                f"{reason}. Nothing is lost: the {len(writes)} documents at hand are stored and found by keyword; the "
                "next add embeds what is missing."
            ) from failure

    def _embed_missing(
        self, embedder: Embedder, texts: dict[str, str], embeddings: dict[str, Vectors]
    ) -> dict[str, Vectors]:
        n_truncated = getattr(embedder, "n_truncated", 0)
        try:
            return embed_missing(self.truth, embedder, texts, embeddings)
        finally:
            self.report.truncated += getattr(embedder, "n_truncated", 0) - n_truncated

    def _embed_pending(self) -> None:
        is_any = False
        for texts in by_hash(self.truth.unembedded(), COMMIT_CHUNKS):
            embed_and_keep(self.truth, self._slot.get(), texts)
            is_any = True
        if is_any:
            self.truth.attach_embeddings(self._slot.record().fingerprint)


def _naming_chunk(error: InvalidVectorError, writes: Sequence[DocumentWrite]) -> EmbedderError:
    chunks = (chunk for write in writes for chunk in write.chunks if text_hash(chunk.content) == error.text_hash)
    chunk = next(chunks, None)
    where = "" if chunk is None else f", of chunk {chunk.id} from {chunk.metadata['source']!r}"
    return EmbedderError(f"{error}{where}; nothing of this batch was stored")
