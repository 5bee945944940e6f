"""Ids that stay the same from run to run: of documents by where they come from, of chunks by what they say."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from kb_core.chunking import Chunker
from kb_core.documents import Chunk, Document, clean_text, inherited_metadata, text_hash
from kb_core.metadata import encode_metadata
from kb_core.protocols import MetadataStore

_FIELDS = set(Document.model_fields)


def source_id(source: str, ordinal: int = 0) -> str:
    """Derive the id of the document number `ordinal` of those that a source yields."""
    return text_hash(f"source\0{source}\0{ordinal or ''}")


def content_id(document: Document) -> str:
    """Derive the id of a document without a source: equal text and metadata are the same document."""
    return text_hash(f"content\0{document.content}\0{encode_metadata(document.metadata)}")


def identify(documents: Iterable[Document]) -> tuple[list[Document], dict[str, int]]:
    """Give every document an id and a source, as copies.

    A source named in `metadata["source"]` counts where the document has none of its own. Documents of one source
    without ids are told apart by their order.

    Returns:
        The documents, and how many ids were derived from each source.
    """
    n_from: dict[str, int] = {}
    identified = []
    for document in documents:
        named = document.metadata.get("source")
        source = document.source or (named if isinstance(named, str) else "")
        document_id = document.id
        if not document_id and source:
            ordinal = n_from.get(source, 0)
            n_from[source] = ordinal + 1
            document_id = source_id(source, ordinal)
        elif not document_id:
            document_id = content_id(document)
        # Cleaned again: a document can be changed after it was made.
        content = clean_text(document.content)
        identified.append(
            Document.model_construct(
                _FIELDS, id=document_id, content=content, source=source, metadata=document.metadata
            )
        )
    return identified, n_from


def stale_ids(truth: MetadataStore, n_from: Mapping[str, int]) -> list[str]:
    """Find former documents that have no successor: those of a source that now yields fewer than it did."""
    stale: list[str] = []
    candidates = {source_id(source, n): (source, n) for source, n in n_from.items()}
    while candidates:
        found = truth.content_hashes(list(candidates))
        stale.extend(found)
        following = (candidates[document_id] for document_id in found)
        candidates = {source_id(source, n + 1): (source, n + 1) for source, n in following}
    return stale


def chunk_document(document: Document, chunker: Chunker, page_starts: Sequence[int] = ()) -> list[Chunk]:
    """Cut an identified document into chunks.

    A chunk's id is derived from the document's id, the text, and how often that text came before in the document: a
    passage keeps its id when others are put in front of it.

    Args:
        document: Has an id.
        chunker: How to cut.
        page_starts: Where each page starts in the content; chunks then carry `page`, from 1, in their metadata.
    """
    inherited = inherited_metadata(document)
    n_before: dict[str, int] = {}
    chunks = []
    for index, (start, end) in enumerate(chunker.split(document.content)):
        content = document.content[start:end]
        occurrence = n_before.get(content, 0)
        n_before[content] = occurrence + 1
        metadata = inherited  # the chunk makes a copy of it
        if page_starts:
            metadata = {**inherited, "page": bisect_right(page_starts, start)}
        chunks.append(
            Chunk(
                id=text_hash(f"{document.id}\0{content}\0{occurrence or ''}"),
                document_id=document.id,
                content=content,
                metadata=metadata,
                index=index,
                start_char=start,
                end_char=end,
            )
        )
    return chunks
