"""Rows of `kb.sqlite` as values, and values as rows."""

import sqlite3
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from kb_core.documents import Chunk, inherited_metadata
from kb_core.metadata import decode_metadata, encode_metadata
from kb_core.protocols import DocumentInfo, DocumentWrite, Vectors

CHUNK_COLUMNS = "c.id, d.id, c.content, c.position, c.start_char, c.end_char, d.source, d.metadata, c.extra"
"""What `chunk_from_row` reads, with `chunks AS c` joined to `documents AS d`."""


def extra_of(chunk: Chunk, inherited: Mapping[str, Any]) -> str | None:
    """Encode what a chunk's metadata adds to the document's; None where it adds nothing."""
    if chunk.metadata == inherited:
        return None
    extra = {key: value for key, value in chunk.metadata.items() if key not in inherited or inherited[key] != value}
    return encode_metadata(extra) if extra else None


def chunk_rows(write: DocumentWrite) -> Iterator[tuple[str, int, int, int, bytes, str | None, str]]:
    """Give id, position, start, end, text hash, extra metadata and content of each chunk."""
    inherited = inherited_metadata(write.document)
    for chunk, digest in zip(write.chunks, write.text_hashes, strict=True):
        extra = extra_of(chunk, inherited)
        yield chunk.id, chunk.index, chunk.start_char, chunk.end_char, bytes.fromhex(digest), extra, chunk.content


def chunk_from_row(row: tuple[Any, ...]) -> Chunk:
    """Build a fresh chunk of a row of `CHUNK_COLUMNS`."""
    chunk_id, document_id, content, index, start, end, source, metadata, extra = row[:9]
    return Chunk(
        id=chunk_id,
        document_id=document_id,
        content=content,
        metadata=chunk_metadata(source, metadata, extra),
        index=index,
        start_char=start,
        end_char=end,
    )


def chunk_metadata(source: str, metadata: str, extra: str | None) -> dict[str, Any]:
    """Put a chunk's metadata together: the document's, the chunk's own, the source."""
    merged = decode_metadata(metadata) if metadata != "{}" else {}
    if extra is not None:
        merged.update(decode_metadata(extra))
    merged["source"] = source
    return merged


def document_row(write: DocumentWrite, added_at: str) -> dict[str, Any]:
    """Give the columns of a document, named."""
    document = write.document
    return {
        "id": document.id,
        "source": document.source,
        "content_hash": write.content_hash,
        "n_chars": len(document.content),
        "n_chunks": len(write.chunks),
        "added_at": added_at,
        "metadata": encode_metadata(document.metadata),
        "content": document.content,
    }


def document_info(row: tuple[Any, ...]) -> DocumentInfo:
    """Read id, source, metadata, n_chunks, n_chars, content_hash, added_at."""
    document_id, source, metadata, n_chunks, n_chars, content_hash, added_at = row
    return DocumentInfo(document_id, source, decode_metadata(metadata), n_chunks, n_chars, content_hash, added_at)


def vector_to_blob(vector: Vectors) -> bytes:
    """Write a vector as little-endian float32."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def vector_from_blob(blob: bytes) -> Vectors:
    """Read what `vector_to_blob` wrote, as a copy of its own."""
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def matrix_from_blobs(blobs: list[bytes]) -> Vectors:
    """Stack vectors of one dimension: (len(blobs), d)."""
    flat = np.frombuffer(b"".join(blobs), dtype="<f4").astype(np.float32)
    return flat.reshape(len(blobs), -1)


@lru_cache(maxsize=1024)
def shared_metadata(metadata: str) -> Mapping[str, Any]:
    """Decode metadata that is only looked at; the result is shared and must not be changed."""
    return decode_metadata(metadata)


def fetch_column(connection: sqlite3.Connection, sql: str, *parameters: Any) -> list[Any]:
    """Run a query of one column and give that column."""
    return [row[0] for row in connection.execute(sql, parameters)]
