"""What `SqliteMetadataStore` promises beyond the suite: files, versions, processes."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kb_core.errors import SourceNotFoundError, StoreError, StoreLockedError, StoreReadOnlyError, StoreVersionError
from kb_core.stores.sqlite import SqliteMetadataStore, schema
from kb_core.testing.metadata_store import contents, put, write


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.iterdir()}


def test_what_was_stored_is_there_after_reopening(tmp_path):
    first = SqliteMetadataStore(tmp_path / "kb.sqlite")
    put(first, write("d", "中文 ✓"))
    first.close()
    second = SqliteMetadataStore(tmp_path / "kb.sqlite")
    assert contents(second.chunks("d")) == ["中文 ✓"]
    assert second.revision() == 1
    second.close()


def test_every_file_has_a_name_of_its_own(tmp_path):
    stores = [SqliteMetadataStore(tmp_path / name) for name in ("a", "b")]
    assert stores[0].store_id != stores[1].store_id
    for store in stores:
        store.close()


def test_files_are_private(tmp_path):
    store = SqliteMetadataStore(tmp_path / "docs" / "kb.sqlite")
    put(store, write("d", "one"))
    assert stat.S_IMODE((tmp_path / "docs").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "docs").iterdir()} == {0o600}
    store.close()


def test_every_folder_that_is_made_is_private(tmp_path):
    store = SqliteMetadataStore(tmp_path / "a" / "b" / "kb.sqlite")
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")} == {0o700}
    store.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for path in (tmp_path / "file" / "kb.sqlite", tmp_path):
        with pytest.raises(StoreError, match="cannot be written"):
            SqliteMetadataStore(path)


def test_a_newer_schema_is_refused_and_left_untouched(tmp_path):
    path = tmp_path / "kb.sqlite"
    SqliteMetadataStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreVersionError, match="newer release"):
            SqliteMetadataStore(path, read_only=read_only)
    assert path.read_bytes() == before


def test_another_program_s_database_is_refused_and_left_untouched(tmp_path):
    path = tmp_path / "kb.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a knowledge base"):
        SqliteMetadataStore(path)
    assert path.read_bytes() == before


def test_garbage_is_refused_and_left_untouched(tmp_path):
    path = tmp_path / "kb.sqlite"
    path.write_bytes(b"not a database, whatever it looks like" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="damaged or no SQLite database"):
        SqliteMetadataStore(path)
    assert path.read_bytes() == before


def test_read_only_writes_nothing_and_creates_nothing(tmp_path):
    path = tmp_path / "kb.sqlite"
    store = SqliteMetadataStore(path)
    put(store, write("d", "one"))
    store.close()
    before = listing(tmp_path)
    reader = SqliteMetadataStore(path, read_only=True)
    assert contents(reader.chunks("d")) == ["one"]
    with pytest.raises(StoreReadOnlyError, match="read-only"):
        put(reader, write("e", "two"))
    with pytest.raises(StoreReadOnlyError):
        reader.clear()
    assert listing(tmp_path) == before
    reader.close()
    assert listing(tmp_path) == before


def test_read_only_sees_what_a_writer_adds_later(tmp_path):
    path = tmp_path / "kb.sqlite"
    SqliteMetadataStore(path).close()
    reader = SqliteMetadataStore(path, read_only=True)
    assert reader.revision() == 0
    writer = SqliteMetadataStore(path)
    put(writer, write("d", "one"))
    assert reader.revision() == 1
    assert contents(reader.chunks("d")) == ["one"]
    writer.close()
    assert contents(reader.chunks("d")) == ["one"]
    reader.close()


def test_read_only_needs_something_to_read(tmp_path):
    with pytest.raises(SourceNotFoundError, match="no knowledge base"):
        SqliteMetadataStore(tmp_path / "none" / "kb.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_waiting_for_another_writer_is_bounded(tmp_path):
    path = tmp_path / "kb.sqlite"
    store = SqliteMetadataStore(path, lock_timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLockedError, match=r"0\.05 s"):
        put(store, write("d", "one"))
    other.execute("ROLLBACK")
    other.close()
    put(store, write("d", "one"))
    assert store.counts()["documents"] == 1
    store.close()


def test_a_closed_store_says_so(tmp_path):
    store = SqliteMetadataStore(tmp_path / "kb.sqlite")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.revision()


def test_failed_opens_leave_no_file_open(tmp_path):
    path = tmp_path / "kb.sqlite"
    path.write_bytes(b"garbage" * 1000)
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("this system has no /proc to count open files in")
    n_open = len(list(descriptors.iterdir()))
    for _ in range(100):
        with pytest.raises(StoreError):
            SqliteMetadataStore(path)
    assert len(list(descriptors.iterdir())) == n_open


def test_the_file_shrinks_when_most_of_it_is_deleted(tmp_path):
    path = tmp_path / "kb.sqlite"
    store = SqliteMetadataStore(path)
    for number in range(20):
        item = write(str(number), f"{number} " * 100_000)
        item.chunks[0].id = str(number)
        put(store, item)
    store.delete_documents([str(number) for number in range(20)])
    assert path.stat().st_size < 2_000_000
    store.close()


_OPEN = """
import sys
from kb_core.stores.sqlite import SqliteMetadataStore
from kb_core.testing.metadata_store import put, write
sys.stdin.readline()
store = SqliteMetadataStore(sys.argv[1])
for number in range(5):
    put(store, write(f"{sys.argv[2]}-{number}", f"text {sys.argv[2]} {number}"))
store.close()
"""


def test_eight_processes_may_open_and_fill_a_fresh_path_at_once(tmp_path):
    path = tmp_path / "fresh" / "kb.sqlite"
    children = [
        subprocess.Popen([sys.executable, "-c", _OPEN, str(path), str(number)], stdin=subprocess.PIPE)
        for number in range(8)
    ]
    for child in children:
        child.stdin.write(b"go\n")
        child.stdin.flush()
    assert [child.wait(timeout=120) for child in children] == [0] * 8
    for child in children:
        child.stdin.close()
    store = SqliteMetadataStore(path)
    assert store.counts() == {"documents": 40, "chunks": 40, "pending": 0}
    assert store.revision() == 40
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own(tmp_path):
    store = SqliteMetadataStore(tmp_path / "kb.sqlite")
    put(store, write("d", "one"))
    child = os.fork()
    if child == 0:
        put(store, write("e", "two"))
        seen = contents(store.chunks("d"))
        store.close()
        os._exit(0 if seen == ["one"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.counts()["documents"] == 2
    put(store, write("f", "three"))
    assert store.counts()["documents"] == 3
    store.close()


def test_a_reader_is_not_kept_waiting_by_a_writer(tmp_path):
    store = SqliteMetadataStore(tmp_path / "kb.sqlite", lock_timeout=0.05)
    put(store, write("d", "one"))
    other = sqlite3.connect(tmp_path / "kb.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.append(store.counts()["chunks"]))
    reader.start()
    reader.join(timeout=10)
    assert read == [1]
    other.execute("ROLLBACK")
    other.close()
    store.close()


def test_no_row_ever_refers_to_nothing(tmp_path):
    store = SqliteMetadataStore(tmp_path / "kb.sqlite")
    put(store, write("d", "one", "two"), write("e", "three"), write("f", "four"))
    put(store, write("d", "two", "five"))
    store.delete_chunks(["e-three"])
    store.delete_documents(["f"])
    store.attach_embeddings("other", switch_to={})
    with sqlite3.connect(tmp_path / "kb.sqlite") as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    store.clear()
    store.close()
