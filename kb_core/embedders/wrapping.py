"""Embedders that users already have, made to keep the contract of `Embedder`."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from kb_core.embedders.dimension import Dimension
from kb_core.embedders.vectors import DistinctTexts, check_query, check_vectors, fingerprint_of
from kb_core.errors import EmbedderError, KBError
from kb_core.protocols import Embedder, Vectors

_NEEDED = (
    "embed_documents(list[str]) and embed_query(str), or embed(list[str]), or be a function of list[str], "
    "that gives one list of numbers for each text"
)


def wrap_embedder(embedder: Any) -> Embedder:
    """Give any object that embeds the shape of `Embedder`, with its output checked and normalised.

    Args:
        embedder: One of kb-core's embedders (comes back as it is); an object with `embed_documents` and
            `embed_query`, as LangChain's; one with only `embed(list) -> list`; or a function of that shape.

    Raises:
        TypeError: It is none of these; says what is needed.
    """
    if isinstance(embedder, WrappedEmbedder) or _is_own(embedder):
        own: Embedder = embedder
        return own
    return WrappedEmbedder(embedder)


def _is_own(embedder: Any) -> bool:
    return type(embedder).__module__.startswith(f"{__package__}.") and isinstance(embedder, Embedder)


class WrappedEmbedder:
    """An embedder of the user's, seen through the contract; see `wrap_embedder`.

    Attributes `fingerprint`, `default_alpha`, `dimension` and `n_truncated` of the object win where it has them. Its
    fingerprint is else made of its class, its `model` or `model_name`, and its dimension; of `__wrapped__`, where it
    has that.
    """

    def __init__(self, embedder: Any) -> None:
        if isinstance(embedder, type):
            raise TypeError(
                f"embedder must be an object, got the class {embedder.__name__}; create one: {embedder.__name__}()"
            )
        self._embedder = embedder
        self._documents, self._query = _methods(embedder)
        # An object that only lends another's methods other names says so as functions do, and is named after it.
        self._named = getattr(embedder, "__wrapped__", embedder)
        self._name = _name_of(self._named)
        self._dimension = Dimension(_int_attribute(embedder, "dimension"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    @property
    def default_alpha(self) -> float:
        """See `Embedder`; 0.7 where the object says nothing, as for a semantic model."""
        alpha = getattr(self._embedder, "default_alpha", None)
        return float(alpha) if isinstance(alpha, int | float) and 0 <= alpha <= 1 else 0.7

    @property
    def dimension(self) -> int:
        """Of the vectors; embeds one word, once, where the object does not say."""
        if self._dimension.value is None:
            self._embed(DistinctTexts(["dimension"]))
        return self._dimension.value or 0

    @property
    def fingerprint(self) -> str:
        """See `Embedder`; may embed one word, once, to learn the dimension."""
        given = getattr(self._embedder, "fingerprint", None)
        if isinstance(given, str) and given:
            return given
        return fingerprint_of(self._name, model=_model_of(self._named), dimension=self.dimension)

    @property
    def is_fingerprint_known(self) -> bool:
        """Whether `fingerprint` can be told without embedding anything."""
        return self._dimension.value is not None or bool(getattr(self._embedder, "fingerprint", None))

    def expect_dimension(self, dimension: int) -> None:
        """Take the dimension for granted until the first vector shows another: then that is a mismatch."""
        self._dimension.expect(dimension)

    @property
    def n_truncated(self) -> int:
        """What the object counts itself, else 0: its limits are not known."""
        return _int_attribute(self._embedder, "n_truncated") or 0

    def config(self) -> dict[str, Any]:
        """Name what is wrapped, JSON-safe; only the user's own code can build it again."""
        return {"class": type(self).__name__, "wraps": self._name, "model": _model_of(self._named)}

    def embed_documents(self, texts: list[str]) -> Vectors:
        """See `Embedder.embed_documents`. Blank and repeated texts are not passed on."""
        distinct = DistinctTexts(texts)
        return distinct.spread(self._embed(distinct), lambda: self.dimension)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder.embed_query`."""
        text = check_query(text)
        if not text.strip():
            return np.zeros(self.dimension, np.float32)
        vectors = [self._call(self._query, text)] if self._query else self._call(self._documents, [text])
        checked = check_vectors(vectors, 1, provider=self._name, dimension=self._dimension.required)
        self._dimension.learn(int(checked.shape[1]), self._name)
        return np.asarray(checked[0], np.float32)

    def _embed(self, distinct: DistinctTexts) -> Vectors:
        if not distinct.texts:
            return np.zeros((0, 0), np.float32)
        vectors = self._call(self._documents, list(distinct.texts))
        checked = distinct.check(vectors, provider=self._name, dimension=self._dimension.required)
        self._dimension.learn(int(checked.shape[1]), self._name)
        return checked

    def _call(self, method: Callable[..., Any], argument: Any) -> Any:
        try:
            found = method(argument)
        except KBError:
            raise
        except Exception as error:
            n_texts = len(argument) if isinstance(argument, list) else 1
            # Its message is not repeated: it may quote a key or a document. It is there as __cause__.
            raise EmbedderError(f"{self._name} failed on {n_texts} texts: {type(error).__name__}") from error
        if inspect.iscoroutine(found):
            found.close()
            raise EmbedderError(
                f"{self._name} must embed synchronously, got a coroutine; wrap it in a function that waits"
            )
        # fastembed and others give a generator.
        return list(found) if inspect.isgenerator(found) else found


def _methods(embedder: Any) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Find the method for passages, and the one for a query if there is one."""
    documents, query, embed = (
        method if callable(method := getattr(embedder, name, None)) else None
        for name in ("embed_documents", "embed_query", "embed")
    )
    if documents is not None and query is not None:
        return documents, query
    if embed is not None:
        return embed, None
    if inspect.isroutine(embedder) or (documents is None and callable(embedder)):
        return embedder, None
    half = "; it has only one of embed_documents and embed_query" if documents or query else ""
    raise TypeError(f"embedder must have {_NEEDED}; got {type(embedder).__name__}{half}")


def _name_of(embedder: Any) -> str:
    named = embedder if inspect.isroutine(embedder) else type(embedder)
    return f"{named.__module__}.{named.__qualname__}"


def _model_of(embedder: Any) -> str | None:
    """Read the model's name; `str` alone, since a model object's repr may hold an address or a key."""
    for attribute in ("model", "model_name", "model_id"):
        value = getattr(embedder, attribute, None)
        if isinstance(value, str) and value:
            return value
    return None


def _int_attribute(embedder: Any, name: str) -> int | None:
    value = getattr(embedder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
