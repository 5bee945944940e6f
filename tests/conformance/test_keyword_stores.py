"""Every keyword store passes the one suite."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kb_core.stores.rank_bm25 import RankBM25KeywordStore
from kb_core.stores.tantivy import TantivyKeywordStore, base, store
from kb_core.testing.keyword_store import KeywordStoreSuite, PersistentKeywordStoreSuite


class TestRankBM25(KeywordStoreSuite):
    @pytest.fixture
    def store(self) -> RankBM25KeywordStore:
        return RankBM25KeywordStore()


class TestTantivyInMemory(KeywordStoreSuite):
    @pytest.fixture
    def store(self) -> TantivyKeywordStore:
        return TantivyKeywordStore()


class TestTantivyOnDisk(PersistentKeywordStoreSuite):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], TantivyKeywordStore]:
        return lambda: TantivyKeywordStore(tmp_path / "index" / "keywords")


class TestTantivyThatWritesOften(PersistentKeywordStoreSuite):
    @pytest.fixture
    def open_store(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], TantivyKeywordStore]:
        monkeypatch.setattr(store, "_MAX_WAITING", 20)
        monkeypatch.setattr(store, "_MAX_WAITING_UNCOMMITTED", 100)
        monkeypatch.setattr(base, "_MAX_KEYS", 1)  # else these small selections would be named in the query
        return lambda: TantivyKeywordStore(tmp_path)
