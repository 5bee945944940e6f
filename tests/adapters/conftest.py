"""A small knowledge base for the adapters: real stores, real embedder."""

import socket
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from kb_core import Document, LocalKB
from kb_core.embedders import HashingEmbedder

POLICIES = [
    ("returns.md", "Returns are accepted within 30 days of delivery. The label is free within Germany.", "en", 1),
    ("refunds.md", "Refunds are paid to the card that was charged, two days after the return arrived.", "en", 2),
    ("shipping.md", "Orders leave the warehouse the same day. Express delivery takes one day.", "en", 3),
    ("warranty.md", "The warranty of five years covers faults in material. Wear is not covered.", "en", 4),
    ("gift-cards.md", "A gift card is valid for three years and cannot be returned for a refund.", "en", 5),
    ("ruecknahme.md", "Rückgabe innerhalb von 30 Tagen: return within 30 days, auf Deutsch.", "de", 6),
]


def fill(kb: LocalKB) -> LocalKB:
    kb.add_documents(
        Document(
            content=text,
            source=source,
            metadata={"lang": lang, "page": page, "url": f"https://shop.example/{page}", "since": date(2025, 1, page)},
        )
        for source, text, lang, page in POLICIES
    )
    return kb


@pytest.fixture(scope="session")
def kb() -> Iterator[LocalKB]:
    """Six documents of one chunk each, to be read only."""
    with LocalKB("policies", persist=False, embedder=HashingEmbedder()) as made:
        yield fill(made)


class FailingEmbedder:
    """A user's own embedder, whose service is gone by the time of the first query."""

    model = "remote"

    def __init__(self) -> None:
        self._embedder = HashingEmbedder()

    def embed_documents(self, texts: list[str]) -> Any:
        return self._embedder.embed_documents(texts)

    def embed_query(self, _text: str) -> Any:
        raise ConnectionError("no route to host")


@pytest.fixture
def failing_kb() -> Iterator[LocalKB]:
    with LocalKB("failing", persist=False, embedder=FailingEmbedder()) as made:
        yield fill(made)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a socket is made, and have no key; an event loop's own pair of sockets stays in the process."""
    make = socket.socket.__init__

    def guarded(self: socket.socket, family: int = -1, *args: Any, **kwargs: Any) -> None:
        assert family == socket.AF_UNIX, "a socket was opened"
        make(self, family, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "__init__", guarded)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
