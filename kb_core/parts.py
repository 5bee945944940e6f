"""The parts of a LocalKB, put together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kb_core.identity import EmbedderSlot
from kb_core.opening import Place, Stores
from kb_core.protocols import MetadataStore
from kb_core.retrieval import Retriever
from kb_core.settings import Settings, remember, settle
from kb_core.views import Views


@dataclass(frozen=True)
class Parts:
    """What a LocalKB is wired of.

    Attributes:
        truth: The metadata store.
        settings: What was given, what the store remembered, and the defaults, in this order.
        slot: The embedder.
        views: The vector store and the keyword store, opened at first use.
        retriever: Searches.
    """

    truth: MetadataStore
    settings: Settings
    slot: EmbedderSlot
    views: Views
    retriever: Retriever

    def close(self) -> None:
        """Persist the indexes and let go of files."""
        self.views.close()
        self.truth.close()


def assemble(
    place: Place, given: Mapping[str, Any], stores: Stores, embedder: object | None, *, collapse_duplicates: bool
) -> Parts:
    """Open the truth and wire the rest to it; nothing stays open if that fails.

    Args:
        place: Where everything is kept.
        given: Settings, checked; see `given_settings`.
        stores: The user's own, in place of the default ones.
        embedder: The user's own, of any accepted shape.
        collapse_duplicates: See `Retriever`.
    """
    truth = place.open_truth() if stores.metadata is None else stores.metadata
    try:
        settings = settle(truth, given)
        slot = EmbedderSlot(embedder, truth)
        if not place.read_only:
            remember(truth, settings)
    except BaseException:
        truth.close()
        raise
    views = Views(
        truth,
        place.vectors_opener(truth, settings.index_type, stores.vectors),
        place.keywords_opener(truth, settings.language, stores.keywords),
    )
    return Parts(truth, settings, slot, views, Retriever(truth, views, slot, collapse_duplicates=collapse_duplicates))
