"""What is particular to the FAISS store; the contract itself is in the conformance tests."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from kb_core.errors import StoreError
from kb_core.protocols import Hit, Selection
from kb_core.stores.faiss import FaissVectorStore
from kb_core.stores.faiss.ids import IdTable, digests
from kb_core.stores.faiss.rows import RowSet, cosines, unit
from kb_core.testing.vectors import chunks, cloud, exact, ids_of, names

IDS = names(20_000)
KINDS = ["auto", "flat", "ivf", "hnsw"]


def filled(path=None, *, n=1_000, revision=1, seed=0, **options):
    store = FaissVectorStore(path, **options)
    store.upsert(chunks(names(n)), cloud(n, seed=seed))
    store.commit(revision)
    return store


def python(script, *arguments, timeout=60, **environment):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=True,
        env={**os.environ, **environment},
    ).stdout


def test_importing_the_store_loads_no_faiss():
    assert python("import sys, kb_core.stores.faiss; print('faiss' in sys.modules)") == "False\n"


@pytest.mark.parametrize("wrong", ["FLAT", "", "lsh", None, 3])
def test_another_index_type_is_refused_with_those_there_are(wrong):
    with pytest.raises(ValueError, match="auto, flat, ivf, hnsw, got"):
        FaissVectorStore(index_type=wrong)


def test_a_tail_of_no_rows_is_refused():
    with pytest.raises(ValueError, match="got 0"):
        FaissVectorStore(max_tail=0)


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        FaissVectorStore(tmp_path / "file")


def test_a_closed_store_says_so(tmp_path):
    store = filled(tmp_path)
    store.close()
    for call in (store.count, store.clear, lambda: store.commit(1), lambda: store.search(cloud(1)[0], 1)):
        with pytest.raises(StoreError, match="closed"):
            call()


@pytest.mark.parametrize(("kind", "built"), [("auto", "flat"), ("flat", "flat"), ("ivf", "ivf"), ("hnsw", "hnsw")])
def test_stats_tell_the_index_and_its_measured_recall(kind, built):
    store = filled(n=3_000, index_type=kind, max_tail=1)
    store.delete(names(3_000)[:7])
    store.upsert(chunks(["new"]), cloud(1))
    stats = json.loads(json.dumps(store.stats()))
    assert (stats["n"], stats["dead"], stats["tail"], stats["dimension"]) == (2_994, 7, 1, 16)
    assert [(each["kind"], each["n"]) for each in stats["segments"]] == [(built, 3_000)]
    assert 0.99 <= stats["recall"] <= 1


def test_below_two_thousand_rows_every_type_is_exact():
    for kind in KINDS:
        store = filled(n=1_999, index_type=kind, max_tail=1)
        assert [each["kind"] for each in store.stats()["segments"]] == ["flat"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """20,000 x 256, more than `auto` scans exactly; every tenth vector is the same."""
    path = tmp_path_factory.mktemp("large") / "vectors"
    vectors = cloud(20_000, 256, seed=3)
    vectors[::10] = vectors[0]
    store = FaissVectorStore(path)
    store.upsert(chunks(IDS), vectors)
    store.commit(1)
    store.close()
    return path, vectors


def test_auto_scans_codes_where_an_exact_scan_gets_slow_and_reaches_its_recall(large):
    path, vectors = large
    store = FaissVectorStore(path, read_only=True)
    assert [each["kind"] for each in store.stats()["segments"]] == ["codes"]
    queries = unit(vectors[1:400:10] + cloud(40, 256, seed=5))
    tenths = np.sort(queries @ unit(vectors).T, axis=1)[:, -10]
    good = 0
    for query, tenth in zip(queries, tenths, strict=True):
        scores = [hit.score for hit in store.search(query, 10)]
        assert scores == sorted(scores, reverse=True)
        good += sum(score >= tenth - 1e-6 for score in scores)
    assert good / 400 >= 0.99


def test_of_thousands_of_equal_vectors_the_smallest_ids_are_found(large):
    path, vectors = large
    store = FaissVectorStore(path, read_only=True)
    equal = sorted(IDS[::10])
    hits = store.search(vectors[0], 25)
    assert ids_of(hits) == equal[:25]
    assert len({hit.score for hit in hits}) == 1
    half = Selection(IDS[5_000:])
    assert ids_of(store.search(vectors[0], 25, within=half)) == sorted(IDS[5_000::10])[:25]


@pytest.mark.parametrize("size", [1, 9, 5_000, 12_000, 19_990])
def test_filtered_codes_give_the_exact_best_of_the_selection(large, size):
    path, vectors = large
    store = FaissVectorStore(path, read_only=True)
    chosen = np.random.default_rng(size).permutation(20_000)[:size]
    held = {IDS[row]: vectors[row] for row in chosen}
    selection = Selection(held.keys())
    good = []
    for query in cloud(2, 256, seed=6):
        right = exact(held, query, 10)
        hits = store.search(query, 10, within=selection)
        assert len(hits) == len(right)
        assert set(ids_of(hits)) <= held.keys()
        good += [hit.score >= right[-1].score - 1e-6 for hit in hits]
    assert np.mean(good) >= 0.98


@pytest.mark.parametrize("kind", KINDS)
def test_those_that_are_left_are_found_when_nearly_all_are_deleted(kind):
    store = filled(n=3_000, index_type=kind, max_tail=1)
    store.delete(names(3_000)[12:])
    for vector in cloud(5, seed=7):
        assert sorted(ids_of(store.search(vector, 10 + 2))) == sorted(names(3_000)[:12])


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_updates_in_place(kind):
    store = filled(n=3_000, index_type=kind, max_tail=1)
    target = -cloud(1, seed=8)[0]
    store.upsert(chunks(names(3_000)[5:6]), target[None])
    for revision in (2, 3):
        assert store.count() == 3_000
        assert store.search(target, 1)[0] == Hit(names(3_000)[5], pytest.approx(1))
        store.commit(revision)


def test_equal_vectors_score_equally_in_the_tail_and_in_any_segment():
    store = FaissVectorStore(max_tail=1)
    vector, query = cloud(1, 255, seed=1)[0], cloud(1, 255, seed=2)[0]
    for revision, ids in enumerate((["e"], ["a", "x"], ["d", "b", "y", "z"]), 1):
        store.upsert(chunks(ids), np.stack([vector] * len(ids)))
        store.upsert(chunks([f"noise-{revision}-{i}" for i in range(33)]), cloud(33, 255, seed=10 + revision))
        if revision < 3:
            store.commit(revision)
    hits = [hit for hit in store.search(query, 200) if not hit.id.startswith("noise")]
    assert ids_of(hits) == ["a", "b", "d", "e", "x", "y", "z"]
    assert len({hit.score for hit in hits}) == 1


@pytest.mark.parametrize("dimension", [1, 3, 255, 256, 384, 1_536])
def test_a_row_scores_the_same_wherever_it_lies(dimension):
    rows, query = unit(cloud(70, dimension)), unit(cloud(1, dimension, seed=1))[0]
    together = cosines(rows, query)
    assert all(cosines(rows[[row]], query)[0] == together[row] for row in range(70))


@pytest.mark.slow
def test_results_do_not_depend_on_the_hash_seed():
    script = """
import numpy as np
from kb_core.stores.faiss import FaissVectorStore
from kb_core.testing.vectors import chunks, names
store = FaissVectorStore(max_tail=100)
store.upsert(chunks(set(names(300))), np.ones((300, 4), dtype=np.float32)); store.commit(1)
store.upsert(chunks({"b", "a", "chunk-0"}), np.ones((3, 4), dtype=np.float32))
print(store.search(np.ones(4, dtype=np.float32), 20))
"""
    assert len({python(script, PYTHONHASHSEED=seed) for seed in "012"}) == 1


def test_segments_stay_few_and_writes_are_merged():
    store = FaissVectorStore(max_tail=1)
    for step in range(200):
        store.upsert(chunks([f"{step}-{i}" for i in range(5)]), cloud(5, seed=step))
        store.commit(step + 1)
        sizes = sorted(each["n"] for each in store.stats()["segments"])
        assert sum(sizes) == store.count() == 5 * (step + 1)
        assert len(sizes) <= np.log2(step + 1) + 1


def test_a_segment_of_which_a_quarter_is_dead_is_rewritten_at_a_commit():
    store = filled(n=4_000, max_tail=1)
    store.delete(names(4_000)[:999])
    store.commit(2)
    assert store.stats()["dead"] == 999
    store.delete(names(4_000)[999:1_000])
    store.commit(3)
    assert (store.stats()["dead"], store.count()) == (0, 3_000)
    store.delete(names(4_000))
    store.commit(4)
    assert store.stats()["segments"] == []


@pytest.mark.slow
def test_searches_go_on_while_segments_are_merged():
    vectors = cloud(3_000, seed=4)
    store = FaissVectorStore(max_tail=1, index_type="hnsw")
    store.upsert(chunks(names(3_000)[:500]), vectors[:500])
    is_done = threading.Event()
    failures = []

    def read():
        row = 0
        while not is_done.is_set():
            row = (row + 1) % 500
            hits = store.search(vectors[row], 5)
            if abs(hits[0].score - 1) > 1e-6 or len(hits) != 5:
                failures.append(hits)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for step in range(1, 6):
        store.upsert(chunks(names(3_000)[: 500 * (step + 1)]), vectors[: 500 * (step + 1)])
        store.commit(step)
    is_done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert store.count() == 3_000


@pytest.mark.slow
def test_a_forked_child_searches_and_builds_after_its_parent_did():
    script = """
import os, sys
from kb_core.stores.faiss import FaissVectorStore
from kb_core.testing.vectors import chunks, cloud, names
vectors = cloud(4_000)
def build():
    store = FaissVectorStore(index_type="hnsw", max_tail=1)
    store.upsert(chunks(names(4_000)), vectors); store.commit(1)
    return store
store = build()
before = store.search(vectors[5], 10)
child = os.fork()
if child == 0:
    os._exit(0 if store.search(vectors[5], 10) == before and build().search(vectors[5], 1)[0] == before[0] else 1)
print(os.waitpid(child, 0)[1])
"""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    assert python(script, timeout=120) == "0\n"


def test_the_callers_thread_setting_is_left_as_it_was(large):
    import faiss

    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(3)
        FaissVectorStore(large[0], read_only=True).search(large[1][0], 5)
        assert faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)


def test_ids_that_share_half_a_digest_are_told_apart():
    ids = [b"a", b"b", b"c", b"d"]
    buffer = IdTable.pack(ids).copy()
    keys = digests(ids).copy()
    keys[1:, 0] = keys[1, 0]
    order = np.argsort(keys[:, 0], kind="stable")
    words = buffer[: 8 * 18].view(np.uint64)
    words[6:18] = np.concatenate([keys[order, 0], keys[order, 1], order.astype(np.uint64)])
    table = IdTable(buffer)
    assert sorted(table.find(keys).tolist()) == [0, 1, 2, 3]
    assert table.find(keys[2:3]).tolist() == [2]
    assert table.find(np.array([[keys[1, 0], 0]], dtype=np.uint64)).tolist() == []


@pytest.mark.parametrize("n", [1, 7, 8, 9, 1_000])
def test_a_row_set_agrees_with_a_set(n):
    generator = np.random.default_rng(n)
    first, second = (generator.integers(0, n, n // 2 + 1) for _ in range(2))
    rows = RowSet.of(first, n)
    everything = np.arange(n)
    assert rows.size == len(set(first.tolist()))
    assert rows.rows(n).tolist() == sorted(set(first.tolist()))
    assert everything[rows.has(everything)].tolist() == rows.rows(n).tolist()
    assert set(rows.without(second).rows(n).tolist()) == set(first.tolist()) - set(second.tolist())
    assert set(rows.among(RowSet.of(second, n)).rows(n).tolist()) == set(first.tolist()) & set(second.tolist())
    assert RowSet.full(n).size == n
