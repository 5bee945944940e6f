"""What is stored of a chunk, and how."""

import hashlib
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tantivy

SCHEMA_VERSION = 1
"""Raise it with every change of the schema: stores of another one rebuild themselves."""

_WRITER_BYTES = 64_000_000
_TOKENIZER = "kb_terms"


def schema() -> "tantivy.Schema":
    """Describe the fields.

    `id` is kept as bytes, because not every str is UTF-8, and found by its hash, because Tantivy indexes no term past
    65,530 bytes. `terms` are kept so that a hit can be scored exactly. `filter` is a 32-bit hash that can be read for
    many hits at once. `every` is the same in all chunks: how often it occurs tells how many slots the index has.
    """
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_bytes_field("id", stored=True)
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("terms", stored=True, tokenizer_name=_TOKENIZER, index_option="freq")
    builder.add_unsigned_field("n_terms", fast=True)
    builder.add_unsigned_field("filter", fast=True)
    builder.add_unsigned_field("every", indexed=True)
    return builder.build()


def register_tokenizer(index: "tantivy.Index") -> None:
    """Make the tokenizer of `terms` known: they come analysed, with a space between."""
    import tantivy

    index.register_tokenizer(_TOKENIZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def new_index(path: str | None) -> "tantivy.Index":
    """Make an empty index in a folder, or in memory."""
    import tantivy

    index = tantivy.Index(schema(), path=path, reuse=False)
    index.config_reader("manual")
    register_tokenizer(index)
    return index


def write(index: "tantivy.Index", deleted: Iterable[str], chunks: Iterable[tuple[str, str]]) -> None:
    """Delete, add and commit; on disk when it returns, and the writer's threads ended.

    Args:
        index: Nobody else may be writing to it.
        deleted: Ids.
        chunks: Each an id and its terms, joined by spaces.
    """
    import tantivy

    writer = index.writer(_WRITER_BYTES, num_threads=1)
    for chunk_id in deleted:
        writer.delete_documents_by_term("key", key(chunk_id))
    for chunk_id, terms in chunks:
        document = tantivy.Document()
        document.add_bytes("id", _encoded(chunk_id))
        document.add_text("key", key(chunk_id))
        document.add_text("terms", terms)
        document.add_unsigned("n_terms", len(terms.split()))
        document.add_unsigned("filter", filter_hash(chunk_id))
        document.add_unsigned("every", 1)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def key(chunk_id: str) -> str:
    """Hash an id so that no two chunks meet: 128 bits."""
    return hashlib.blake2b(_encoded(chunk_id), digest_size=16).hexdigest()


def filter_hash(chunk_id: str) -> int:
    """Hash an id quickly: 32 bits."""
    return zlib.crc32(_encoded(chunk_id))


def decoded(stored_id: bytes) -> str:
    """Give the id back."""
    return bytes(stored_id).decode(errors="surrogatepass")


def _encoded(chunk_id: str) -> bytes:
    return chunk_id.encode(errors="surrogatepass")
