"""Every metadata store passes the one suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_core.stores.sqlite import SqliteMetadataStore
from kb_core.testing.metadata_store import MetadataStoreSuite


class TestSqliteOnDisk(MetadataStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteMetadataStore]:
        store = SqliteMetadataStore(tmp_path / "docs" / "kb.sqlite")
        yield store
        store.close()


class TestSqliteInMemory(MetadataStoreSuite):
    @pytest.fixture
    def store(self) -> Iterator[SqliteMetadataStore]:
        store = SqliteMetadataStore()
        yield store
        store.close()


class TestSqliteWithoutSharedMemory(MetadataStoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteMetadataStore]:
        store = SqliteMetadataStore(tmp_path / "kb.sqlite", journal_mode="delete")
        yield store
        store.close()
