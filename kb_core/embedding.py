"""Texts to vectors: only those that have none yet, a part at a time, with what was done kept if the embedder fails."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kb_core.documents import text_hash
from kb_core.embedders.vectors import BrokenContractError, InvalidVectorError, check_vectors
from kb_core.errors import EmbedderError, EmbedderMismatchError
from kb_core.identity import is_known
from kb_core.progress import track
from kb_core.protocols import Embedder, MetadataStore, Vectors

EMBED_TEXTS = 512
"""Texts that an embedder is given at once: what a failure of it can cost."""

KEEP_S = 10.0
"""Embeddings are kept at least so often, in seconds, before their documents are: what a kill can cost."""


class EmbedderOutage(Exception):  # noqa: N818  never leaves the core: `error` does
    """The embedder raised, as opposed to answering nonsense."""

    def __init__(self, error: EmbedderError) -> None:
        super().__init__(str(error))
        self.error = error


def embed_missing(
    truth: MetadataStore, embedder: Embedder, texts: dict[str, str], embeddings: dict[str, Vectors]
) -> dict[str, Vectors]:
    """Embed those texts whose embedding is not stored, a part at a time.

    Args:
        truth: Holds the embeddings that there are.
        embedder: Makes the others.
        texts: By text hash.
        embeddings: Filled as far as it gets, by text hash.

    Returns:
        The embeddings that were stored, by text hash.

    Raises:
        EmbedderOutage: The embedder raised; `embeddings` holds what it had done.
        EmbedderError: It returned something other than one finite vector a text.
    """
    stored = truth.embeddings(embedder.fingerprint, list(texts)) if is_known(embedder) else {}
    missing = [(digest, text) for digest, text in texts.items() if digest not in stored]
    kept_at, n_kept = time.monotonic(), 0
    for start in range(0, len(missing), EMBED_TEXTS):
        part = missing[start : start + EMBED_TEXTS]
        try:
            vectors = embed(embedder, [text for _, text in part])
        except InvalidVectorError as error:
            error.text_hash = part[error.row][0] if error.row >= 0 else ""
            raise
        embeddings.update(zip((digest for digest, _ in part), vectors, strict=True))
        if time.monotonic() - kept_at > KEEP_S:
            truth.put_embeddings(embedder.fingerprint, dict(islice(embeddings.items(), n_kept, None)))
            kept_at, n_kept = time.monotonic(), len(embeddings)
    return stored


def embed(embedder: Embedder, texts: list[str]) -> Vectors:
    """Embed texts and check what came back: float32, (len(texts), d), unit rows."""
    try:
        vectors = embedder.embed_documents(texts)
    except (BrokenContractError, EmbedderMismatchError):
        raise
    except EmbedderError as error:
        raise EmbedderOutage(error) from error
    except Exception as error:
        raise EmbedderOutage(EmbedderError(f"{type(embedder).__name__} failed: {error!r}.")) from error
    return check_vectors(vectors, len(texts), provider=type(embedder).__name__)


def update_chunk(truth: MetadataStore, embedder: Embedder, chunk_id: str, content: str) -> None:
    """Replace a chunk's text in the truth, embedding it where that text is new.

    Raises:
        EmbedderError: The embedder failed; nothing was changed.
        KeyError: There is no such chunk.
    """
    embeddings: dict[str, Vectors] = {}
    try:
        embed_missing(truth, embedder, {text_hash(content): content}, embeddings)
    except EmbedderOutage as outage:
        raise outage.error from outage
    truth.update_chunk(chunk_id, content, fingerprint=embedder.fingerprint, embeddings=embeddings)


def embed_and_keep(truth: MetadataStore, embedder: Embedder, texts: dict[str, str]) -> None:
    """Embed texts, by text hash, and keep the embeddings: as many as it gets to.

    Raises:
        EmbedderError: The embedder failed; what it had done is kept.
    """
    embeddings: dict[str, Vectors] = {}
    try:
        embed_missing(truth, embedder, texts, embeddings)
    except EmbedderOutage as outage:
        raise outage.error from outage
    finally:
        if embeddings:
            truth.put_embeddings(embedder.fingerprint, embeddings)


def reembed(truth: MetadataStore, embedder: Embedder, settings: Mapping[str, Any], *, progress: bool | None) -> int:
    """Move every chunk to another embedder.

    The embeddings are kept as they come, so that a second try goes on where the first was stopped; searches use the old
    ones until a single commit switches all chunks.

    Args:
        truth: Whose chunks.
        embedder: The one to move to.
        settings: Kept in the commit that switches: what names the embedder.
        progress: Draw a bar; None: on a terminal, for long work.

    Returns:
        How many texts were embedded.

    Raises:
        EmbedderError: The embedder failed; nothing was switched, what it had done is kept.
    """
    missing = list(truth.unembedded(embedder.fingerprint))
    batches = by_hash(missing, EMBED_TEXTS)
    for texts in track(batches, -(-len(missing) // EMBED_TEXTS), "Embedding", is_wanted=progress):
        embed_and_keep(truth, embedder, texts)
    truth.attach_embeddings(embedder.fingerprint, switch_to=settings)
    return len(missing)


def by_hash(texts: Iterable[str], size: int) -> Iterator[dict[str, str]]:
    """Yield the texts by their hash, so many at a time."""
    remaining = iter(texts)
    while batch := list(islice(remaining, size)):
        yield {text_hash(text): text for text in batch}
