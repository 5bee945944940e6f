"""What goes into an embedder and what may come out of it: the one place where both are checked."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_core.errors import EmbedderError
from kb_core.protocols import Vectors


class BrokenContractError(EmbedderError):
    """An embedder answered, but not with one vector a text, all of one dimension."""


class InvalidVectorError(BrokenContractError):
    """A vector is not finite, so it could never be ranked.

    Attributes:
        row: The index of the text, in the list that `embed_documents` was given, whose vector it is; -1: not known.
        text_hash: Of that text, where somebody along the way knew it; else empty.
    """

    def __init__(self, message: str, *, row: int = -1) -> None:
        super().__init__(message)
        self.row = row
        self.text_hash = ""


def check_texts(texts: Sequence[Any]) -> list[str]:
    """Refuse anything but strings before a model or a service sees one of them.

    Returns:
        The texts; half surrogate pairs, which no tokenizer and no JSON encoder takes, are U+FFFD.

    Raises:
        TypeError: `texts` is a single string, or some rows are not strings; names the rows.
    """
    if isinstance(texts, str | bytes):
        raise TypeError(f"texts must be a list of str, got one {type(texts).__name__}; pass [text]")
    rows = list(texts)
    bad = [(row, text) for row, text in enumerate(rows) if not isinstance(text, str)]
    if bad:
        shown = ", ".join(f"texts[{row}] is {type(text).__name__}" for row, text in bad[:5])
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise TypeError(f"texts must be a list of str, but {shown}{more}; nothing was embedded")
    return [_without_lone_surrogates(text) for text in rows]


def check_query(text: str) -> str:
    """Refuse a query that is not a string; see `check_texts`."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    return _without_lone_surrogates(text)


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def check_vectors(
    vectors: Any, n_texts: int, *, provider: str, dimension: int | None = None, where: str = ""
) -> Vectors:
    """Turn whatever an embedder returned into unit rows, or say what is wrong with it.

    Args:
        vectors: Rows of numbers: an array, a list of lists, a list of arrays.
        n_texts: How many texts were given; as many vectors must have come.
        provider: The class or service, for messages.
        dimension: What every vector must have; None: the same for all.
        where: Which part of the work this was, for messages, e.g. "batch 2".

    Returns:
        float32, shape (n_texts, d), rows of unit length; a zero row stays zero.

    Raises:
        InvalidVectorError: A value is not finite; its `row` counts from the first of these vectors.
        BrokenContractError: Another count, ragged rows, another shape or dimension, not numbers.
    """
    at = f" ({where})" if where else ""
    rows = _as_rows(vectors, provider, at)
    if len(rows) != n_texts:
        raise BrokenContractError(
            f"{provider} returned {len(rows)} vectors for {n_texts} texts{at}; nothing of it was kept"
        )
    if n_texts == 0:
        return np.zeros((0, dimension or 0), np.float32)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise BrokenContractError(f"{provider} must return vectors of shape (n, d), got {rows.shape}{at}")
    if dimension is not None and rows.shape[1] != dimension:
        raise BrokenContractError(f"{provider} must return vectors of dimension {dimension}, got {rows.shape[1]}{at}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        row = int(bad[0])
        raise InvalidVectorError(f"{provider} returned a vector that is not finite for text {row}{at}", row=row)
    return normalize(rows)


def _as_rows(vectors: Any, provider: str, at: str) -> NDArray[np.float64]:
    """Make a float64 array of it; float64 so that a large float keeps finite until it is normalised."""
    if vectors is None or isinstance(vectors, str | bytes | dict):
        raise BrokenContractError(f"{provider} must return a list of vectors, got {type(vectors).__name__}{at}")
    try:
        if not hasattr(vectors, "__array__"):
            vectors = list(vectors)
        return np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        lengths = {len(row) for row in vectors if hasattr(row, "__len__")} if isinstance(vectors, list) else set()
        if len(lengths) > 1:
            raise BrokenContractError(
                f"{provider} returned vectors of different dimensions: {', '.join(map(str, sorted(lengths)))}{at}"
            ) from None
        raise BrokenContractError(f"{provider} must return vectors of numbers{at}: {type(error).__name__}") from None


def normalize(rows: NDArray[Any]) -> Vectors:
    """Scale each row to unit length, a zero row stays zero: float32, the shape of `rows`, which are finite."""
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    # By the largest value first: the square of 1e-200 would be 0, that of 1e200 infinite.
    scaled = np.divide(rows, largest, out=np.zeros(rows.shape), where=largest > 0)
    lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(scaled, lengths, out=scaled, where=lengths > 0)
    return unit.astype(np.float32)


def fingerprint_of(kind: str, **parts: Any) -> str:
    """Write down what names a vector space, so that a person can compare: `Kind(model='…', dimension=384, …)`."""
    shown = ", ".join(f"{name}={value!r}" for name, value in parts.items())
    return f"{kind}({shown}, normalized=True)"


class DistinctTexts:
    """The texts of one call that must really be embedded: each once, blank ones not at all.

    Args:
        texts: What `embed_documents` was given.

    Attributes:
        texts: The distinct texts that are not blank, in order of first appearance.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._given = check_texts(texts)
        self.texts = [text for text in dict.fromkeys(self._given) if text.strip()]

    def check(self, vectors: Any, *, provider: str, dimension: int | None = None) -> Vectors:
        """Do as `check_vectors`, with rows counted in the texts that were given."""
        try:
            return check_vectors(vectors, len(self.texts), provider=provider, dimension=dimension)
        except InvalidVectorError as error:
            row = self._given.index(self.texts[error.row])
            message = f"{provider} returned a vector that is not finite for text {row} of {len(self._given)}"
            raise InvalidVectorError(message, row=row) from None

    def spread(self, vectors: Vectors, dimension: Callable[[], int]) -> Vectors:
        """Give every text its vector, a blank one a zero row.

        Args:
            vectors: (len(self.texts), d), checked.
            dimension: Asked for d only where there is no vector to read it from.
        """
        if not self.texts:
            return np.zeros((len(self._given), dimension() if self._given else 0), np.float32)
        if len(self.texts) == len(self._given):
            return vectors
        row_of = {text: row for row, text in enumerate(self.texts)}
        padded = np.vstack([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
        return np.asarray(padded[[row_of.get(text, -1) for text in self._given]], np.float32)
