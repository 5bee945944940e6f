"""Embedders: text in, unit vectors out. Which there are, and how one is chosen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb_core.embedders.choice import choose_embedder, embedder_from_config
    from kb_core.embedders.fastembed import FastEmbedEmbedder
    from kb_core.embedders.hashing import HashingEmbedder
    from kb_core.embedders.openai import OpenAIEmbedder
    from kb_core.embedders.openai_exchange import RetryPolicy
    from kb_core.embedders.static import StaticEmbedder
    from kb_core.embedders.vectors import BrokenContractError, InvalidVectorError, check_vectors
    from kb_core.embedders.wrapping import WrappedEmbedder, wrap_embedder

__all__ = [
    "BrokenContractError",
    "FastEmbedEmbedder",
    "HashingEmbedder",
    "InvalidVectorError",
    "OpenAIEmbedder",
    "RetryPolicy",
    "StaticEmbedder",
    "WrappedEmbedder",
    "check_vectors",
    "choose_embedder",
    "embedder_from_config",
    "wrap_embedder",
]

_HOMES = {
    "BrokenContractError": "vectors",
    "FastEmbedEmbedder": "fastembed",
    "HashingEmbedder": "hashing",
    "InvalidVectorError": "vectors",
    "OpenAIEmbedder": "openai",
    "RetryPolicy": "openai_exchange",
    "StaticEmbedder": "static",
    "WrappedEmbedder": "wrapping",
    "check_vectors": "vectors",
    "choose_embedder": "choice",
    "embedder_from_config": "choice",
    "wrap_embedder": "wrapping",
}


def __getattr__(name: str) -> Any:  # PEP 562: httpx alone takes 0.1 s
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
