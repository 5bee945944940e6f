"""Which embedder a knowledge base speaks: found late, recorded once, never mixed."""

from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from kb_core.embedders.wrapping import wrap_embedder
from kb_core.errors import EmbedderMismatchError
from kb_core.protocols import Embedder, MetadataStore

SETTING = "embedder"


@runtime_checkable
class LearnsDimension(Protocol):
    """An embedder that may not know its dimension, and so its fingerprint, before it has embedded something."""

    @property
    def is_fingerprint_known(self) -> bool:
        """Whether the fingerprint can be told without embedding anything."""
        ...

    def expect_dimension(self, dimension: int) -> None:
        """Take the dimension for granted until the first vector shows another: that is then a mismatch."""
        ...


class EmbedderSlot:
    """Holds the embedder of a knowledge base; makes it at first use, so that a status or a listing loads no model.

    Args:
        given: The user's own, of any accepted shape; None: the one recorded in the store, else the best available.
        truth: Where the embedder is recorded.

    Raises:
        TypeError: `given` is no embedder.
        EmbedderMismatchError: The store holds vectors of another one. Where an embedder tells neither its dimension nor
            a fingerprint, another dimension comes to light with its first vector, not before.
    """

    def __init__(self, given: object | None, truth: MetadataStore) -> None:
        self._truth = truth
        self._embedder: Embedder | None = None if given is None else wrap_embedder(given)
        self._lock = Lock()
        recorded = self.recorded()
        if self._embedder is not None and recorded is not None:
            expect(self._embedder, recorded["dimension"])
            self.get()

    def get(self) -> Embedder:
        """Give the embedder, which is that of the store's vectors.

        Raises:
            EmbedderMismatchError: The store holds vectors of another one, by now.
            EmbedderUnavailableError: The recorded one cannot be made here.
        """
        return self._checked(self.recorded())

    def of_vectors(self) -> Embedder | None:
        """Give the embedder of the vectors that the store holds; None before there are any. Raises like `get`."""
        recorded = self.recorded()
        return None if recorded is None else self._checked(recorded)

    def _checked(self, recorded: dict[str, Any] | None) -> Embedder:
        with self._lock:
            if self._embedder is None:
                self._embedder = _choose() if recorded is None else _rebuild(recorded)
            if recorded is not None and recorded["fingerprint"] != self._embedder.fingerprint:
                raise _mismatch(recorded["fingerprint"], self._embedder.fingerprint)
            return self._embedder

    def recorded(self) -> dict[str, Any] | None:
        """Give what the store says of its embedder: `fingerprint` and `config`; None before anything was embedded."""
        found = self._truth.get_setting(SETTING)
        return found if isinstance(found, dict) else None

    def record(self) -> Embedder:
        """Give the embedder, after noting it in the store: before the first of its vectors. Raises like `get`."""
        embedder = self.get()
        if self.recorded() is None:
            self._truth.set_settings(settings_of(embedder))
        return embedder

    def adopt(self, embedder: Embedder) -> None:
        """Use another embedder from here on."""
        with self._lock:
            self._embedder = embedder

    def forget(self) -> None:
        """Let any embedder follow: the store was emptied."""
        self._truth.set_settings({SETTING: None})


def settings_of(embedder: Embedder) -> dict[str, Any]:
    """Give the setting that names an embedder, and how to make it again where that can be known."""
    config = getattr(embedder, "config", None)
    dimension = getattr(embedder, "dimension", None)
    named = {"fingerprint": embedder.fingerprint, "dimension": dimension, "config": config() if config else None}
    return {SETTING: named}


def expect(embedder: Embedder, dimension: int) -> None:
    """Let an embedder that knows no dimension pass for one of this dimension, rather than embed a probe."""
    if isinstance(embedder, LearnsDimension):
        embedder.expect_dimension(dimension)


def is_known(embedder: Embedder) -> bool:
    """Tell whether the fingerprint is known before anything was embedded."""
    return not isinstance(embedder, LearnsDimension) or embedder.is_fingerprint_known


def _choose() -> Embedder:
    from kb_core.embedders import choose_embedder

    return choose_embedder()


def _rebuild(recorded: Mapping[str, Any]) -> Embedder:
    from kb_core.embedders import embedder_from_config

    config = recorded.get("config")
    if not isinstance(config, dict):
        raise EmbedderMismatchError(
            f"this knowledge base was embedded with {recorded['fingerprint']}, which only your program can make: "
            "pass the same object as embedder="
        )
    return embedder_from_config(config)


def _mismatch(recorded: str, given: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"this knowledge base was embedded with {recorded}, not with {given}: vectors of two models cannot be "
        "compared. Open it with the same embedder, or move it with kb.reembed(embedder) or `kb reembed`."
    )
