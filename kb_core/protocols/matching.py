"""Embedders, and the two stores that match a query with chunks."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from operator import index
from typing import NamedTuple, Protocol, SupportsIndex, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kb_core.documents import Chunk
from kb_core.filters import Filter

Vectors = NDArray[np.float32]
"""float32, shape (n, d) or (d,)."""


def check_top_k(top_k: object) -> int:
    """Give `top_k` as an int, 0 or more.

    Raises:
        ValueError: It is negative, or no whole number; True is none.
    """
    try:
        number = -1 if isinstance(top_k, bool) else index(cast("SupportsIndex", top_k))
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"top_k must be a whole number, 0 or more, got {top_k!r}")
    return number


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
