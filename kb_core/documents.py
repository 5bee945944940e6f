"""The values that travel through a knowledge base: documents, chunks, results, reports."""

import hashlib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator

from kb_core.metadata import clean_text, normalise_metadata

__all__ = ["AddReport", "Chunk", "Document", "Failure", "ScoreType", "SearchResult", "clean_text", "text_hash"]

ScoreType = Literal["cosine", "bm25", "fused", "rerank"]

# Errors of pydantic would quote the input, and so the text of a document, in logs and in answers to a model.
_STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)


def text_hash(text: str) -> str:
    """Hash a text: 32 hex digits of BLAKE2b. Equal texts share one embedding."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Document(BaseModel):
    """A text with a source, before it is cut into chunks.

    Attributes:
        id: Identifies the document in its knowledge base. Left empty, it is derived: from `source` where there is one
            (so that a changed file replaces its older self), else from the content.
        content: The whole text. NUL and lone surrogates are replaced by U+FFFD when the document is made.
        source: Where it came from, as a citation: a path, a URL, a title. May be empty.
        metadata: JSON values, and `date`, `datetime`, `Decimal`, numpy scalars. Every chunk inherits them.
    """

    model_config = _STRICT

    id: str = ""
    content: str
    source: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("id", "content", "source")
    @classmethod
    def _replace_unstorable(cls, value: str) -> str:
        return clean_text(value)

    @field_validator("metadata", mode="before")
    @classmethod
    def _normalise(cls, value: object) -> dict[str, Any]:
        return normalise_metadata(value)


class Chunk(BaseModel):
    """A passage of one document: what is embedded, indexed and returned.

    Attributes:
        id: Stable across runs: derived from the document's id and the passage's text.
        document_id: The `Document.id` that it was cut from.
        content: The passage, never blank.
        metadata: The document's metadata, and `source`.
        index: Its position among the document's chunks, from 0.
        start_char: Where it starts in the document's content, in characters (Unicode code points).
        end_char: Where it ends, exclusive: `content == document.content[start_char:end_char]`.
    """

    model_config = _STRICT

    id: str
    document_id: str
    content: str
    metadata: dict[str, Any] = Field(default_factory=dict)
    index: int = 0
    start_char: int = 0
    end_char: int = 0


def inherited_metadata(document: Document) -> dict[str, Any]:
    """Give the metadata that every chunk of a document carries: the document's own, and its source."""
    return {**document.metadata, "source": document.source}


class SearchResult(BaseModel):
    """One hit of a search.

    Attributes:
        chunk: The passage. A fresh object at each search: change it as you like.
        score: The one that ranked it, larger is better. What it means stands in `score_type`.
        score_type: `"cosine"` in [-1, 1], `"bm25"` above 0, `"fused"` in [0, 1] for min-max and distribution-based
            fusion (relative to the candidates of this query), `"rerank"` a cross-encoder's own scale.
        vector_score: The raw cosine, or None where the vector matcher did not score this chunk.
        keyword_score: The raw BM25 score, or None where the chunk shares no term with the query.
        also_in: Sources of other chunks with the very same text, which this hit stands for.
    """

    model_config = _STRICT

    chunk: Chunk
    score: FiniteFloat
    score_type: ScoreType
    vector_score: FiniteFloat | None = None
    keyword_score: FiniteFloat | None = None
    also_in: list[str] = Field(default_factory=list)


class Failure(BaseModel):
    """A source that could not be added, and why."""

    source: str
    reason: str


class AddReport(BaseModel):
    """What an `add` did. `int(report)` is the number of chunks it stored.

    Attributes:
        added: Documents that are new.
        updated: Documents whose content or metadata changed; their former chunks are gone from every store.
        unchanged: Documents that were there already, byte for byte; nothing was embedded or written.
        failed: One entry for each source that could not be read; the others went in.
        chunks: Chunks of the added and updated documents.
        truncated: Chunks longer than the embedder's input limit: their tail is found by keyword only.
        warnings: What a person should know and no machine needs: a guessed encoding, replaced characters.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: list[Failure] = Field(default_factory=list)
    chunks: int = 0
    truncated: int = 0
    warnings: list[str] = Field(default_factory=list)

    def __int__(self) -> int:
        return self.chunks

    def __index__(self) -> int:
        return self.chunks
