"""Keeps the stores that are derived from the truth in step with it."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.protocols import Changes, KeywordStore, MetadataStore, Vectors, VectorStore
from kb_core.threads import INDEXING

_log = logging.getLogger(__name__)

# A store on disk may adopt what another process wrote, and then be behind once more; more often than this is a fault.
_MAX_ROUNDS = 4


class Views:
    """The vector store and the keyword store, as views of the truth.

    Args:
        truth: What they mirror.
        open_vectors: Opens the vector store; called at the first `catch_up`, so that a listing loads no engine.
        open_keywords: Opens the keyword store.
    """

    def __init__(
        self, truth: MetadataStore, open_vectors: Callable[[], VectorStore], open_keywords: Callable[[], KeywordStore]
    ) -> None:
        self._truth = truth
        self._open = (open_vectors, open_keywords)
        self._stores: tuple[VectorStore, KeywordStore] | None = None
        self._seen = -1
        self._lock = threading.Lock()

    def catch_up(self) -> tuple[VectorStore, KeywordStore]:
        """Bring both stores to the truth's latest revision; microseconds where they are there already.

        A store that fails on the way is cleared and rebuilt, with one warning.

        Returns:
            The vector store and the keyword store.

        Raises:
            StoreError: One of them failed again on the rebuild.
        """
        if self._stores is not None and self._truth.revision() == self._seen:
            return self._stores
        with self._lock:
            stores = self._opened()
            revision = self._truth.revision()
            for store in stores:
                if store.revision != revision:
                    self._catch_up_or_rebuild(store)
            self._seen = revision
            return stores

    def feed(self, before: int, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Take a commit from memory rather than read it back: the next one after `before`, of new chunks only.

        Where the stores are not at `before`, or fail, nothing is lost: the next `catch_up` reads it.

        Args:
            before: The revision that the commit followed.
            chunks: All that it stored.
            vectors: Theirs, (len(chunks), d).
        """
        with self._lock:
            store_of_vectors, store_of_keywords = self._opened()
            if {store_of_vectors.revision, store_of_keywords.revision} != {before}:
                return
            try:
                # Side by side: an index is trained without the GIL while texts are analysed with it.
                indexing = INDEXING.submit(partial(_take, store_of_vectors, before + 1, chunks, vectors))
                try:
                    _take(store_of_keywords, before + 1, chunks)
                finally:
                    indexing.result()
            except Exception as error:  # noqa: BLE001  `catch_up` tries again, and says so if it fails again
                _log.debug("a commit could not be fed: %r", error)
            else:
                self._seen = before + 1

    def _opened(self) -> tuple[VectorStore, KeywordStore]:
        if self._stores is None:
            self._stores = (self._open[0](), self._open[1]())
        return self._stores

    def _catch_up_or_rebuild(self, store: VectorStore | KeywordStore) -> None:
        try:
            self._catch_up(store)
        except Exception as error:  # noqa: BLE001  whatever broke a derived store, the truth can make a new one
            _log.warning("%s could not be updated (%r): rebuilding it", type(store).__name__, error)
            try:
                store.clear()
                self._catch_up(store)
            except Exception as again:
                raise StoreError(f"{type(store).__name__} could not be rebuilt: {again}") from again

    def _catch_up(self, store: VectorStore | KeywordStore) -> None:
        for _ in range(_MAX_ROUNDS):
            revision = 0
            for change in self._truth.changes(store.revision, with_vectors=self._is_vectors(store)):
                self._apply(store, change)
                revision = change.revision
            store.commit(revision)
            if store.revision >= revision:
                return
        raise StoreError(f"{type(store).__name__} does not keep up with the knowledge base")

    def _is_vectors(self, store: VectorStore | KeywordStore) -> bool:
        return self._stores is not None and store is self._stores[0]

    def _apply(self, store: VectorStore | KeywordStore, change: Changes) -> None:
        if change.is_reset:
            store.clear()
        if change.deleted:
            store.delete(change.deleted)
        if not change.chunks:
            return
        if change.vectors is None:
            cast("KeywordStore", store).upsert(change.chunks)
        else:
            cast("VectorStore", store).upsert(change.chunks, change.vectors)

    def close(self) -> None:
        """Close both stores, if they were opened."""
        with self._lock:
            for store in self._stores or ():
                store.close()


def _take(store: Any, revision: int, *upserted: Any) -> None:
    store.upsert(*upserted)
    store.commit(revision)
