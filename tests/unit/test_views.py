"""The derived stores: behind, damaged, deleted, shared."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kb_core import Document, StoreError
from kb_core.stores.rank_bm25 import RankBM25KeywordStore
from tests.embedders_of_users import WordEmbedder

TEXTS = [f"passage number {number} about {word}" for number, word in enumerate(["tea", "salt", "iron", "wool"] * 100)]


class Flaky(RankBM25KeywordStore):
    """A real store whose upsert fails as often as it is told to."""

    n_failures = 0

    def upsert(self, chunks):
        if self.n_failures > 0:
            self.n_failures -= 1
            raise OSError("disk gone")
        super().upsert(chunks)


def test_a_store_that_fails_is_rebuilt_with_one_warning(make_kb, caplog):
    keywords = Flaky()
    kb = make_kb(embedder=WordEmbedder(), keyword_store=keywords)
    kb.add_text("the first about tea")
    keywords.n_failures = 2  # once when it is fed, once when it catches up
    with caplog.at_level(logging.WARNING):
        kb.add_text("the second about tea")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "Flaky" in caplog.text
    assert len(kb.search("tea", search_type="keyword")) == 2


def test_a_store_that_keeps_failing_is_an_error_and_the_truth_is_safe(make_kb):
    keywords = Flaky()
    kb = make_kb(embedder=WordEmbedder(), keyword_store=keywords)
    keywords.n_failures = 10**9
    with pytest.raises(StoreError, match="Flaky"):
        kb.add_text("about tea")
    keywords.n_failures = 0
    assert len(kb.search("tea")) == 1


def index_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "kbs" / "docs" / "index").rglob("*") if path.is_file())


def fill(make_kb) -> list:
    kb = make_kb(embedder=WordEmbedder(), index_type="hnsw")
    kb.add_documents([Document(content=text) for text in TEXTS * 30 if text])
    kb.add_documents([Document(content=f"{text} again {n}") for n in range(30) for text in TEXTS])
    results = [kb.search("passage about iron 7", search_type=kind) for kind in ("hybrid", "vector", "keyword")]
    kb.close()
    return results


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(os.urandom(len(data)))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["deleted", "truncated", "empty", "garbage"])
def test_any_damaged_index_file_is_never_trusted(make_kb, tmp_path, how):
    expected = fill(make_kb)
    names = [path.relative_to(tmp_path) for path in index_files(tmp_path)]
    assert names
    for name in names:
        if not (tmp_path / name).exists():  # rebuilt under another name
            continue
        damage(tmp_path / name, how)
        kb = make_kb(embedder=WordEmbedder())
        found = [kb.search("passage about iron 7", search_type=kind) for kind in ("hybrid", "vector", "keyword")]
        assert [hit.chunk.id for hits in found for hit in hits] == [hit.chunk.id for hits in expected for hit in hits]
        kb.close()


_WRITER = """
import sys
from kb_core import Document, LocalKB
from tests.embedders_of_users import WordEmbedder
with LocalKB("docs", path=sys.argv[1], embedder=WordEmbedder()) as kb:
    for number in range(20):
        kb.add_text(f"writer {sys.argv[2]} passage {number}", source=f"{sys.argv[2]}/{number}")
        assert kb.search(f"writer {sys.argv[2]} passage {number}", 1)
"""


def test_processes_that_write_at_once_lose_and_double_nothing(make_kb, tmp_path):
    reader = make_kb(embedder=WordEmbedder())
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path / "kbs"), str(number)], cwd=root)
        for number in range(3)
    ]
    while any(writer.poll() is None for writer in writers):
        found = reader.search("passage", 100, search_type="keyword")
        assert len({hit.chunk.id for hit in found}) == len(found)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    for search_type in ("keyword", "vector"):
        sources = [hit.chunk.metadata["source"] for hit in reader.search("passage", 100, search_type=search_type)]
        assert sorted(sources) == sorted(f"{writer}/{number}" for writer in range(3) for number in range(20))
