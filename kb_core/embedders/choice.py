"""Which embedder to use where the user named none, and the way back from what was recorded."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from kb_core.embedders.fastembed import FastEmbedEmbedder
from kb_core.embedders.hashing import HashingEmbedder
from kb_core.embedders.openai import OpenAIEmbedder
from kb_core.embedders.static import StaticEmbedder
from kb_core.embedders.wrapping import WrappedEmbedder
from kb_core.errors import EmbedderError, EmbedderUnavailableError
from kb_core.protocols import Embedder

logger = logging.getLogger(__name__)

_FAMILIES: dict[str, Callable[[Mapping[str, Any]], Embedder]] = {
    family.__name__: family.from_config
    for family in (FastEmbedEmbedder, OpenAIEmbedder, StaticEmbedder, HashingEmbedder)
}


def choose_embedder() -> Embedder:
    """Take the best embedder that works here and now: FastEmbed, OpenAI, static word vectors, hashing.

    FastEmbed's default model is loaded, and downloaded if it is not cached and the hub answers within seconds. OpenAI
    is a candidate only where `OPENAI_API_KEY` is set; it is not called. One warning says what was skipped, why, and
    what was taken. Without network the choice takes under 3 s, mostly the wait for a name that does not resolve.
    """
    skipped = []
    for candidate in (_fastembed, _openai, _static):
        try:
            chosen = candidate()
        except (EmbedderError, ImportError) as error:
            skipped.append(str(error))
            continue
        if chosen is not None:
            break
    else:
        chosen = HashingEmbedder()
    if skipped:
        _warn(chosen, skipped)
    return chosen


def _warn(chosen: Embedder, skipped: list[str]) -> None:
    meaning = ""
    if isinstance(chosen, HashingEmbedder):
        meaning = " It knows spelling but no meaning, so vector search adds little to keyword search."
    logger.warning("Using %s:%s %s.", type(chosen).__name__, meaning, "; ".join(skipped))


def _fastembed() -> Embedder:
    embedder = FastEmbedEmbedder()
    embedder.load()
    return embedder


def _openai() -> Embedder | None:
    return OpenAIEmbedder() if os.environ.get("OPENAI_API_KEY", "").strip() else None


def _static() -> Embedder:
    embedder = StaticEmbedder()
    embedder.load()
    return embedder


def embedder_from_config(config: Mapping[str, Any]) -> Embedder:
    """Build the embedder that a `config()` describes; loads no model.

    Raises:
        EmbedderUnavailableError: The embedder was the user's own, or one of a newer release; or its files are gone.
    """
    family = config.get("class")
    if family == WrappedEmbedder.__name__:
        raise EmbedderUnavailableError(
            f"it was built with an embedder of yours, {config.get('wraps')}; pass that as embedder="
        )
    build = _FAMILIES.get(str(family))
    if build is None:
        raise EmbedderUnavailableError(f"no embedder {family!r} in this release; it has {', '.join(_FAMILIES)}")
    try:
        return build(config)
    except (KeyError, TypeError, ValueError) as error:
        raise EmbedderUnavailableError(f"the recorded configuration of {family} is not valid: {error}") from error
