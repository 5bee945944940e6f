"""TantivyKeywordStore beyond the common suite: the disk, other processes, exactness."""

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_core.analysis import Analyzer
from kb_core.documents import Chunk
from kb_core.errors import StoreError
from kb_core.protocols import Selection
from kb_core.stores.rank_bm25 import RankBM25KeywordStore
from kb_core.stores.tantivy import TantivyKeywordStore, base
from kb_core.stores.tantivy import store as store_module

TEXTS = {"a": "apple pie", "b": "banana bread", "c": "cherry pie"}


def _chunks(texts: dict[str, str]) -> list[Chunk]:
    return [Chunk(id=each, document_id="d", content=text) for each, text in texts.items()]


def _filled(path: Path, texts: dict[str, str] = TEXTS, revision: int = 1, **options: object) -> TantivyKeywordStore:
    store = TantivyKeywordStore(path, **options)
    store.upsert(_chunks(texts))
    store.commit(revision)
    return store


def _ids(store: TantivyKeywordStore, query: str, top_k: int = 10) -> list[str]:
    return [hit.id for hit in store.search(query, top_k)]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every commit written at once."""
    monkeypatch.setattr(store_module, "_MAX_WAITING", 0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "keywords"
    _filled(path).close()
    return path


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_reopened_it_finds_what_it_found(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = TantivyKeywordStore(saved)
    assert (store.revision, store.count()) == (1, 3)
    assert _ids(store, "pie") == ["a", "c"]
    store.close()
    assert not _warnings(caplog)


def test_one_small_change_does_not_touch_the_disk(saved: Path) -> None:
    store = TantivyKeywordStore(saved)
    before = sorted((file.name, file.stat().st_mtime_ns) for file in saved.rglob("*"))
    store.upsert(_chunks({"d": "durian pie"}))
    store.delete(["a"])
    store.commit(2)
    assert _ids(store, "pie") == ["c", "d"]
    assert sorted((file.name, file.stat().st_mtime_ns) for file in saved.rglob("*")) == before
    store.close()
    assert _ids(TantivyKeywordStore(saved), "pie") == ["c", "d"]


def test_nothing_is_written_where_nothing_changed(tmp_path: Path, saved: Path) -> None:
    TantivyKeywordStore(tmp_path / "new").close()
    assert not (tmp_path / "new").exists()
    before = sorted((file.name, file.stat().st_mtime_ns) for file in saved.rglob("*"))
    TantivyKeywordStore(saved).close()
    assert sorted((file.name, file.stat().st_mtime_ns) for file in saved.rglob("*")) == before


def test_an_empty_store_keeps_its_revision_and_takes_chunks_later(tmp_path: Path) -> None:
    store = TantivyKeywordStore(tmp_path)
    store.commit(3)
    store.close()
    store = TantivyKeywordStore(tmp_path)
    assert (store.revision, store.count(), store.search("pie", 3)) == (3, 0, [])
    store.upsert(_chunks(TEXTS))
    assert _ids(store, "pie") == ["a", "c"]
    store.close()
    store = TantivyKeywordStore(tmp_path)
    store.commit(4)
    store.close()
    store = TantivyKeywordStore(tmp_path)
    assert (store.revision, _ids(store, "pie")) == (4, ["a", "c"])
    store.close()


def test_files_are_for_their_owner_only(saved: Path) -> None:
    assert saved.stat().st_mode & 0o777 == 0o700
    for entry in saved.rglob("*"):
        assert entry.stat().st_mode & 0o077 == 0, entry


@pytest.mark.usefixtures("eager")
def test_segments_are_merged_and_deleted_chunks_leave_the_index(tmp_path: Path) -> None:
    store = TantivyKeywordStore(tmp_path)
    for i in range(24):
        store.upsert(_chunks({f"c{j}": f"apple number {i}" for j in range(i, i + 100)}))
        store.commit(i + 1)
    assert store.count() == 123
    assert store._base.index.searcher().num_segments < 16
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 1
    store.close()


def test_an_index_of_mostly_deleted_chunks_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MAX_WAITING", 10)
    store = TantivyKeywordStore(tmp_path)
    for i in range(12):
        store.upsert(_chunks({f"c{j}": f"apple {i}" for j in range(100)}))
        store.commit(i + 1)
        assert store._base.n_slots <= 3 * 100
    assert store.count() == 100
    assert _ids(store, "11", 200) == sorted(f"c{j}" for j in range(100))
    store.close()


@pytest.mark.parametrize("seed", range(4))
def test_it_ranks_exactly_like_the_reference(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(seed)
    monkeypatch.setattr(store_module, "_MAX_WAITING", generator.choice([3, 30, 1000]))
    monkeypatch.setattr(base, "_MAX_KEYS", generator.choice([0, 500]))
    analyzer = Analyzer(None)
    words = [f"{a}{b}" for a in "bdfgk" for b in "aeiou"]
    store, reference = TantivyKeywordStore(tmp_path if seed % 2 else None, analyzer), RankBM25KeywordStore(analyzer)
    for step in range(30):
        ids = [f"c{generator.randrange(120)}" for _ in range(generator.choice([1, 5, 40]))]
        if generator.random() < 0.7:
            texts = {
                each: " ".join(generator.choices(words, range(1, 26), k=generator.choice([0, 1, 9, 90, 300])))
                for each in ids
            }
            store.upsert(_chunks(texts))
            reference.upsert(_chunks(texts))
        else:
            store.delete(ids)
            reference.delete(ids)
        if generator.random() < 0.5:
            store.commit(step)
        query, top_k = " ".join(generator.choices(words, k=generator.choice([1, 3, 9]))), generator.choice([1, 10, 500])
        within = None if generator.random() < 0.5 else Selection([f"c{i}" for i in range(0, 120, 3)])
        assert store.search(query, top_k, within=within) == reference.search(query, top_k, within=within)
    store.close()


def test_a_tie_of_thousands_is_cut_by_id(tmp_path: Path) -> None:
    ids = [f"{i * 7919 % 9973:05d}" for i in range(5000)]
    store = _filled(tmp_path, dict.fromkeys(ids, "apple pie"))
    assert store._base is not None
    assert _ids(store, "apple") == sorted(ids)[:10]
    store.close()


def test_the_best_are_found_though_lengths_in_memory_and_on_disk_differ(tmp_path: Path) -> None:
    """The average length by which Tantivy ranks is then far from the true one."""
    generator = random.Random(0)
    on_disk = {f"d{i}": "apple " * generator.randint(1, 30) + "fig " * generator.randint(1, 300) for i in range(1200)}
    in_memory = {f"m{i}": "fig" for i in range(900)}
    store, reference = _filled(tmp_path, on_disk), RankBM25KeywordStore()
    store.upsert(_chunks(in_memory))
    store.commit(2)
    assert len(store._changes) == 900
    reference.upsert(_chunks(on_disk | in_memory))
    for top_k in (1, 10, 100):
        assert store.search("apple fig", top_k) == reference.search("apple fig", top_k)
    store.close()


@pytest.mark.parametrize("language", ["de", None])
def test_another_analysis_counts_as_empty_and_replaces_the_index(
    saved: Path, language: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    store = TantivyKeywordStore(saved, Analyzer(language))
    assert (store.revision, store.count()) == (0, 0)
    store.upsert(_chunks({"x": "Äpfel"}))
    store.commit(1)
    store.close()
    assert _ids(TantivyKeywordStore(saved, Analyzer(language)), "äpfel") == ["x"]
    assert len([entry for entry in saved.iterdir() if entry.is_dir()]) == 1
    assert not _warnings(caplog)


def _files(path: Path, pattern: str) -> list[Path]:
    return [file for file in path.rglob(pattern) if file.is_file() and not file.name.endswith("lock")]


@pytest.mark.parametrize("pattern", ["state.json", "meta.json", "*.term", "*.idx", "*.store", "*.fast", "*.fieldnorm"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "overwritten"])
def test_a_damaged_file_is_found_warned_of_once_and_replaced(
    saved: Path, pattern: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = _files(saved, pattern)[0]
    data = file.read_bytes()
    middle = len(data) // 2
    overwritten = data[: middle - 4] + bytes(byte ^ 0x55 for byte in data[middle - 4 : middle + 4]) + data[middle + 4 :]
    file.write_bytes({"truncated": data[:middle], "emptied": b"", "overwritten": overwritten}[damage])
    store = TantivyKeywordStore(saved)
    assert (store.revision, store.count()) == (0, 0)
    assert len(_warnings(caplog)) == 1
    assert "damaged" in _warnings(caplog)[0]
    store.upsert(_chunks(TEXTS))
    store.commit(4)
    store.close()
    store = TantivyKeywordStore(saved)
    assert (store.revision, _ids(store, "pie")) == (4, ["a", "c"])
    assert len(_warnings(caplog)) == 1
    store.close()


@pytest.mark.parametrize(
    "state",
    [
        "[]",
        "null",
        "{}",
        '{"format": 1}',
        "\x00\x01",
        '{"revision": "x", "generation": "..", "format": "", "checksums": 3}',
    ],
)
def test_a_state_that_is_nonsense_counts_as_damage_or_as_none(saved: Path, state: str) -> None:
    (saved / "state.json").write_text(state)
    store = TantivyKeywordStore(saved)
    assert (store.revision, store.count()) == (0, 0)
    store.close()


def test_an_index_ahead_of_its_state_takes_the_same_changes_again(saved: Path) -> None:
    """What a process leaves that dies between the commit of the index and the state's."""
    former_state = (saved / "state.json").read_text()
    store = TantivyKeywordStore(saved)
    store.upsert(_chunks({"a": "avocado", "d": "durian pie"}))
    store.delete(["c"])
    store.commit(2)
    store.close()
    (saved / "state.json").write_text(former_state)
    store = TantivyKeywordStore(saved)
    assert store.revision == 1
    store.upsert(_chunks({"a": "avocado", "d": "durian pie"}))
    store.delete(["c"])
    store.commit(2)
    assert store.count() == 3
    assert (_ids(store, "pie"), _ids(store, "avocado"), _ids(store, "apple")) == (["d"], ["a"], [])
    store.close()


_WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from kb_core.documents import Chunk
from kb_core.stores.tantivy import TantivyKeywordStore, store
store._MAX_WAITING = 50
keywords = TantivyKeywordStore(Path(sys.argv[1]))
for revision in range(keywords.revision + 1, 10**6):
    keywords.upsert([Chunk(id=f"{revision}-{i}", document_id="d", content=f"apple r{revision}") for i in range(20)])
    keywords.commit(revision)
    print(revision, flush=True)
"""


def test_killed_at_any_time_it_reopens_with_what_its_revision_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    generator = random.Random(1)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", _WRITE_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(generator.randint(5, 20)):
            assert process.stdout.readline()
        time.sleep(generator.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
        store = TantivyKeywordStore(tmp_path)
        assert store.revision > 0
        assert store.count() >= 20 * store.revision  # it may be ahead
        for revision in range(1, store.revision + 1):
            assert len([each for each in _ids(store, f"r{revision}", 50) if each.startswith(f"{revision}-")]) == 20
        store.close()
    assert not _warnings(caplog)


def test_of_two_that_share_a_directory_the_later_builds_on_the_earlier(saved: Path) -> None:
    first, second = TantivyKeywordStore(saved), TantivyKeywordStore(saved)
    first.upsert(_chunks({"d": "durian pie"}))
    first.commit(2)
    second.upsert(_chunks({"d": "durian pie"}))
    second.delete(["a"])
    second.commit(3)
    first.close()
    second.close()
    store = TantivyKeywordStore(saved)
    assert (store.revision, _ids(store, "pie")) == (3, ["c", "d"])
    store.close()


@pytest.mark.usefixtures("eager")
def test_a_store_that_another_put_back_asks_for_the_changes_again(saved: Path) -> None:
    ahead, behind = TantivyKeywordStore(saved), TantivyKeywordStore(saved)
    ahead.delete(["a"])
    ahead.commit(5)  # now the index is at 5 …
    behind.upsert(_chunks({"a": "apple pie again"}))
    behind.commit(4)  # … and this one, late, puts it to 4, with a chunk that is gone at 5
    ahead.upsert(_chunks({"e": "elder pie"}))
    ahead.commit(6)
    assert ahead.revision == 4
    ahead.delete(["a"])
    ahead.upsert(_chunks({"e": "elder pie"}))
    ahead.commit(6)
    assert (ahead.revision, _ids(ahead, "pie")) == (6, ["c", "e"])
    ahead.close()
    behind.close()
    store = TantivyKeywordStore(saved)
    assert (store.revision, _ids(store, "pie")) == (6, ["c", "e"])
    store.close()


@pytest.mark.usefixtures("eager")
def test_while_another_process_writes_changes_wait_in_memory(saved: Path) -> None:
    store = TantivyKeywordStore(saved)
    with store._directory.lock() as is_held:
        assert is_held
        store.upsert(_chunks({"d": "durian pie"}))
        store.commit(2)
        assert (store.revision, _ids(store, "pie")) == (2, ["a", "c", "d"])
        assert TantivyKeywordStore(saved).revision == 1
    store.commit(3)
    assert TantivyKeywordStore(saved).revision == 3
    store.close()


def test_a_reader_outlives_the_files_that_a_writer_replaces(saved: Path) -> None:
    reader, writer = TantivyKeywordStore(saved, read_only=True), TantivyKeywordStore(saved)
    writer.clear()
    writer.upsert(_chunks({"z": "zucchini pie"}))
    writer.commit(9)
    writer.close()
    assert _ids(reader, "pie") == ["a", "c"]
    reader.close()
    assert _ids(TantivyKeywordStore(saved), "pie") == ["z"]


def test_a_directory_removed_under_a_store_is_written_again(saved: Path) -> None:
    store = TantivyKeywordStore(saved)
    shutil.rmtree(saved)
    store.upsert(_chunks({"d": "durian pie"}))
    store.commit(2)
    assert _ids(store, "pie") == ["a", "c", "d"]
    store.close()
    assert TantivyKeywordStore(saved).revision == 0  # what is gone cannot be vouched for


def test_a_disk_that_refuses_costs_a_warning_and_no_chunk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_MAX_WAITING", 0)
    (tmp_path / "file").write_text("in the way")
    store = _filled(tmp_path / "file" / "keywords")
    assert _ids(store, "pie") == ["a", "c"]
    assert store.revision == 1
    assert "stay in memory" in _warnings(caplog)[-1]


def test_read_only_it_leaves_no_trace(saved: Path, tmp_path: Path) -> None:
    before = sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in saved.rglob("*"))
    store = TantivyKeywordStore(saved, read_only=True)
    assert (store.revision, _ids(store, "pie")) == (1, ["a", "c"])
    store.upsert(_chunks({"d": "durian pie"}))
    store.commit(2)
    assert _ids(store, "pie") == ["a", "c", "d"]
    store.clear()
    assert store.count() == 0
    store.close()
    assert sorted((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in saved.rglob("*")) == before
    store = TantivyKeywordStore(tmp_path / "absent", read_only=True)
    assert store.search("pie", 3) == []
    store.close()
    assert not (tmp_path / "absent").exists()


def _exit_code_of_child(body: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if body() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork") or os.geteuid() != 0, reason="only root can become who may not write")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # threads of other tests, from Python 3.12 on
def test_it_reads_where_it_may_not_write(saved: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(shutil.copytree(saved, Path(name) / "keywords"))
        for entry in [Path(name), path, *path.rglob("*")]:
            entry.chmod(0o555 if entry.is_dir() else 0o444)

        def read() -> bool:
            os.setuid(65534)
            store = TantivyKeywordStore(path, read_only=True)
            return not os.access(path, os.W_OK) and _ids(store, "pie") == ["a", "c"]

        assert _exit_code_of_child(read) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # threads of other tests, from Python 3.12 on
def test_a_forked_child_searches_and_writes(saved: Path) -> None:
    store = TantivyKeywordStore(saved)

    def write() -> bool:
        store.upsert(_chunks({"d": "durian pie"}))
        store.commit(2)
        found = _ids(store, "pie")
        store.close()
        return found == ["a", "c", "d"]

    assert _exit_code_of_child(write) == 0
    assert _ids(store, "pie") == ["a", "c"]
    store.close()
    assert TantivyKeywordStore(saved).revision == 2


def test_closed_it_says_so(saved: Path) -> None:
    store = TantivyKeywordStore(saved)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.search("pie", 1)
    with pytest.raises(StoreError, match="closed"):
        store.upsert(_chunks(TEXTS))
    with pytest.raises(StoreError, match="closed"):
        store.commit(3)


def test_the_state_tells_what_made_the_index(saved: Path) -> None:
    state = json.loads(json.loads((saved / "state.json").read_text())["state"])
    assert state["format"].endswith(Analyzer("en").fingerprint)


def test_importing_the_module_loads_no_engine() -> None:
    code = (
        "import sys, kb_core.stores.tantivy, kb_core.stores.rank_bm25;"
        "print({'tantivy', 'rank_bm25', 'py_rust_stemmers'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
