"""The contract of `VectorStore`, as tests."""

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kb_core.protocols import Hit, Selection, Vectors, VectorStore
from kb_core.testing.suite import Suite
from kb_core.testing.vectors import DIMENSION, assert_alike, chunks, cloud, exact, ids_of, names, put, query

ODD_IDS = [
    "1-0",
    "./data/a.txt_1",
    "-8",
    "",
    " ",
    "ключ",
    "退货",
    "😀",
    "a\nb",
    "A",
    "a",
    "\u00e9",
    "e\u0301",
    "x" * 2_000,
]


class VectorStoreSuite(Suite):
    """Subclass with a `store` fixture: a new, empty store for each test."""

    @pytest.fixture
    def store(self) -> Any:
        """Give the empty store under test."""
        raise TypeError("a subclass of VectorStoreSuite must have a `store` fixture")

    def test_it_has_the_shape_of_the_protocol(self, store: VectorStore) -> None:
        assert isinstance(store, VectorStore)

    def test_a_new_store_is_empty_at_revision_0(self, store: VectorStore) -> None:
        assert store.count() == 0
        assert store.revision == 0
        assert store.search(query(1, 0), 5) == []
        store.delete(["a"])
        store.upsert([], np.empty((0, 2), dtype=np.float32))
        assert store.count() == 0

    def test_scores_are_cosines(self, store: VectorStore) -> None:
        put(store, {"same": [2, 0], "slanted": [3, 4], "orthogonal": [0, 7], "opposite": [-0.1, 0]})
        store.commit(1)
        hits = store.search(query(5, 0), 4)
        assert ids_of(hits) == ["same", "slanted", "orthogonal", "opposite"]
        # (3, 4) has length 5, so its cosine with the first axis is 3/5.
        assert [hit.score for hit in hits] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)

    def test_scores_are_plain_floats_within_the_range(self, store: VectorStore) -> None:
        vectors = cloud(200)
        store.upsert(chunks(names(200)), vectors)
        for vector in vectors[:20]:
            hits = store.search(vector, 200)
            assert all(type(hit.id) is str and type(hit.score) is float for hit in hits)
            assert all(-1 <= hit.score <= 1 for hit in hits)
            assert json.loads(json.dumps([tuple(hit) for hit in hits])) == [list(hit) for hit in hits]

    def test_length_does_not_matter(self, store: VectorStore) -> None:
        put(store, {"tiny": [1e-30, 1e-30], "huge": [1e30, -1e30], "one": [1, 0.5]})
        store.commit(1)
        for scale in (1e-30, 1, 1e30):
            hits = store.search(query(scale, scale), 3)
            assert ids_of(hits) == ["tiny", "one", "huge"]
            # cos((1, 0.5), (1, 1)) = 1.5 / sqrt(1.25 * 2) = 1.5 / sqrt(2.5)
            assert [hit.score for hit in hits] == pytest.approx([1, 1.5 / math.sqrt(2.5), 0], abs=1e-6)

    def test_an_id_upserted_twice_is_held_once_with_its_last_vector(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0], "b": [0, 1]})
        store.commit(1)
        put(store, {"a": [0, -1]})
        assert store.count() == 2
        assert [(hit.id, hit.score) for hit in store.search(query(0, 1), 5)] == [("b", 1.0), ("a", -1.0)]
        store.commit(2)
        store.delete(["a"])
        assert store.count() == 1
        assert ids_of(store.search(query(0, 1), 5)) == ["b"]

    def test_an_id_twice_in_one_call_is_held_once_with_its_last_vector(self, store: VectorStore) -> None:
        store.upsert(chunks(["a", "a"]), np.array([[1, 0], [0, 1]], dtype=np.float32))
        assert store.count() == 1
        assert store.search(query(0, 1), 5)[0].score == pytest.approx(1)

    def test_deleting_ignores_unknown_and_repeated_ids(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0], "b": [0, 1]})
        store.delete(["unknown", "a", "a"])
        store.delete(["a"])
        assert store.count() == 1
        assert ids_of(store.search(query(1, 1), 5)) == ["b"]

    def test_what_is_added_after_a_deletion_is_found(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0, 0, 0], "b": [0, 1, 0, 0], "c": [0, 0, 1, 0]})
        store.commit(1)
        store.delete(["b"])
        store.commit(2)
        put(store, {"d": [0, 0, 0, 1]})
        store.commit(3)
        assert store.search(query(0, 0, 0, 1), 1) == [Hit("d", 1.0)]
        assert store.count() == 3

    def test_forty_thousand_ids_are_deleted_in_one_call(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0], "b": [0, 1], "39999": [1, 1]})
        store.commit(1)
        store.delete([str(i) for i in range(40_000)])
        assert ids_of(store.search(query(1, 0), 5)) == ["a", "b"]

    def test_any_string_is_an_id(self, store: VectorStore) -> None:
        vectors = cloud(len(ODD_IDS), seed=1)
        store.upsert(chunks(ODD_IDS), vectors)
        store.commit(1)
        assert store.count() == len(ODD_IDS)
        for chunk_id, vector in zip(ODD_IDS, vectors, strict=True):
            assert store.search(vector, 1)[0].id == chunk_id
            assert ids_of(store.search(vector, 5, within=Selection([chunk_id]))) == [chunk_id]
        store.delete(ODD_IDS)
        assert store.count() == 0

    def test_top_k_past_the_end_gives_what_there_is(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0], "b": [0, 1]})
        assert len(store.search(query(1, 0), 1_000_000)) == 2

    def test_top_k_of_0_gives_nothing(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0]})
        assert store.search(query(1, 0), 0) == []

    @pytest.mark.parametrize("top_k", [-1, -(10**20), 1.5, "5", None, True], ids=repr)
    def test_a_top_k_that_is_no_count_is_refused(self, store: VectorStore, top_k: Any) -> None:
        put(store, {"a": [1, 0]})
        with pytest.raises((ValueError, TypeError), match="top_k"):
            store.search(query(1, 0), top_k)

    def test_ties_go_to_the_smaller_id_whatever_the_order_of_writes(self, store: VectorStore) -> None:
        ids = [f"{i:02d}" for i in range(40)]
        shuffled = np.random.default_rng(5).permutation(ids).tolist()
        vector = cloud(1, seed=2)[0]
        for part, revision in ((shuffled[:25], 1), (shuffled[25:], 2)):
            store.upsert(chunks(part), np.stack([vector] * len(part)))
            store.commit(revision)
        store.upsert(chunks(["00"]), vector[None])
        for k in (1, 7, 39):
            assert ids_of(store.search(vector, k)) == ids[:k]
            assert ids_of(store.search(cloud(1, seed=3)[0], k)) == ids[:k]
        assert len({hit.score for hit in store.search(cloud(1, seed=3)[0], 40)}) == 1

    def test_within_limits_a_search_to_these_ids(self, store: VectorStore) -> None:
        vectors = dict(zip(names(300), cloud(300), strict=True))
        put(store, vectors)
        store.commit(1)
        vector = cloud(1, seed=4)[0]
        for size in (1, 5, 100, 299, 300):
            chosen = np.random.default_rng(size).permutation(list(vectors)).tolist()[:size]
            right = exact({each: vectors[each] for each in chosen}, vector, 10)
            selection = Selection([*chosen, "unknown"])
            for _ in range(2):
                hits = store.search(vector, 10, within=selection)
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in right], abs=2e-6)
                assert set(ids_of(hits)) <= set(chosen)

    def test_within_nothing_or_unknown_ids_finds_nothing(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0]})
        store.commit(1)
        assert store.search(query(1, 0), 5, within=Selection([])) == []
        assert store.search(query(1, 0), 5, within=Selection(["b", ""])) == []

    def test_one_selection_goes_on_holding_while_the_store_changes(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0], "b": [0, 1]})
        store.commit(1)
        selection = Selection(["a", "c"])
        assert ids_of(store.search(query(1, 0), 5, within=selection)) == ["a"]
        put(store, {"c": [1, 1]})
        store.commit(2)
        assert ids_of(store.search(query(1, 0), 5, within=selection)) == ["a", "c"]
        store.delete(["a"])
        store.commit(3)
        assert ids_of(store.search(query(1, 0), 5, within=selection)) == ["c"]

    def test_a_zero_vector_has_cosine_0_and_pushes_nothing_out(self, store: VectorStore) -> None:
        put(store, {"0": [1, 0], "1": [0.5, 0.5], "2": [0, 0], "3": [-1, 0]})
        store.commit(1)
        hits = store.search(query(1, 0), 4)
        assert ids_of(hits) == ["0", "1", "2", "3"]
        # cos((0.5, 0.5), (1, 0)) = 0.5 / sqrt(0.5) = sqrt(0.5)
        assert [hit.score for hit in hits] == pytest.approx([1, math.sqrt(0.5), 0, -1], abs=1e-6)
        assert ids_of(store.search(query(1, 0), 2)) == ["0", "1"]

    def test_a_zero_query_scores_everything_0(self, store: VectorStore) -> None:
        put(store, {"b": [1, 0], "a": [0, 0], "c": [-1, -2]})
        store.commit(1)
        assert store.search(query(0, 0), 2) == [Hit("a", 0.0), Hit("b", 0.0)]

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_a_vector_that_is_not_finite_is_refused_by_name(self, store: VectorStore, value: float) -> None:
        put(store, {"kept": [1, 0]})
        with pytest.raises(ValueError, match="bad-one"):
            store.upsert(chunks(["good", "bad-one"]), np.array([[1, 0], [value, 0]], dtype=np.float32))
        assert ids_of(store.search(query(1, 0), 5)) == ["kept"]
        with pytest.raises(ValueError, match="finite"):
            store.search(query(value, 0), 1)

    def test_another_dimension_is_refused_naming_both(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0, 0]})
        with pytest.raises(ValueError, match=r"3.*2|2.*3"):
            put(store, {"b": [1, 0]})
        with pytest.raises(ValueError, match=r"3.*4|4.*3"):
            store.search(query(1, 0, 0, 0), 1)
        assert store.count() == 1

    @pytest.mark.parametrize("shape", [(1, 3), (3, 3), (6,), (2, 3, 1), (2, 0)])
    def test_another_shape_is_refused(self, store: VectorStore, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match="shape"):
            store.upsert(chunks(["a", "b"]), np.ones(shape, dtype=np.float32))
        assert store.count() == 0

    def test_arrays_are_neither_changed_nor_kept(self, store: VectorStore) -> None:
        vectors, vector = np.array([[3, 4], [0, 2]], dtype=np.float32), query(3, 4)
        store.upsert(chunks(["a", "b"]), vectors)
        before = store.search(vector, 2)
        assert vectors.tolist() == [[3, 4], [0, 2]]
        assert vector.tolist() == [3, 4]
        vectors[:] = -1
        assert store.search(vector, 2) == before

    def test_read_only_and_strided_arrays_are_taken(self, store: VectorStore) -> None:
        wide = np.asfortranarray(cloud(8, 2 * DIMENSION))[:, ::2]
        wide.setflags(write=False)
        store.upsert(chunks(names(8)), wide)
        store.commit(1)
        assert store.search(wide[3], 1)[0].id == names(8)[3]

    def test_any_run_of_writes_agrees_with_a_dictionary(self, store: VectorStore) -> None:
        generator, vectors = np.random.default_rng(11), cloud(400, seed=6)
        held: dict[str, Vectors] = {}
        for step in range(150):
            batch = [f"id-{number:03d}" for number in generator.integers(0, 120, generator.integers(1, 9))]
            if generator.random() < 0.6:
                rows = generator.integers(0, 400, len(batch))
                store.upsert(chunks(batch), vectors[rows])
                held.update(zip(batch, vectors[rows], strict=True))
            else:
                store.delete(batch)
                held = {key: value for key, value in held.items() if key not in batch}
            if generator.random() < 0.3:
                store.commit(step + 1)
            assert store.count() == len(held)
            assert_alike(store, held, vectors[step], int(generator.choice([1, 5, 200])))

    def test_thousands_of_vectors_keep_their_recall_through_deletes_and_filters(self, store: VectorStore) -> None:
        ids, vectors = names(3_000), cloud(3_000)
        for start in range(0, 3_000, 1_000):
            store.upsert(chunks(ids[start : start + 1_000]), vectors[start : start + 1_000])
        store.commit(1)
        store.delete(ids[:600])
        store.commit(2)
        held = dict(zip(ids[600:], vectors[600:], strict=True))
        few, most = Selection(ids[:700]), Selection(ids[300:])
        good = 0
        for vector in cloud(20, seed=9):
            right = exact(held, vector, 10)
            good += sum(hit.score >= right[-1].score - 1e-5 for hit in store.search(vector, 10))
            assert len(store.search(vector, 100, within=few)) == 100
            assert len(store.search(vector, 10, within=most)) == 10
        assert good / 200 >= 0.95

    def test_clear_forgets_everything_and_the_dimension(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0, 0]})
        store.commit(7)
        store.clear()
        assert (store.count(), store.revision) == (0, 0)
        assert store.search(query(1, 0, 0), 5) == []
        put(store, {"b": [1, 0]})
        assert ids_of(store.search(query(1, 0), 5)) == ["b"]

    def test_commit_sets_the_revision(self, store: VectorStore) -> None:
        for revision in (1, 2, 2, 9):
            store.commit(revision)
            assert store.revision == revision

    def test_replaying_writes_changes_nothing(self, store: VectorStore) -> None:
        vectors = cloud(50)
        for _ in range(3):
            store.delete(names(50)[:10])
            store.upsert(chunks(names(50)), vectors)
            store.commit(1)
        assert store.count() == 50
        assert_alike(store, dict(zip(names(50), vectors, strict=True)), vectors[0], 50)

    def test_closing_twice_is_harmless(self, store: VectorStore) -> None:
        put(store, {"a": [1, 0]})
        store.close()
        store.close()

    def test_threads_may_search_while_others_write(self, store: VectorStore) -> None:
        ids, vectors = names(400), cloud(400, seed=8)
        store.upsert(chunks(ids[:100]), vectors[:100])
        store.commit(1)

        def write(part: int) -> None:
            for start in range(100 + 100 * part, 200 + 100 * part, 10):
                store.upsert(chunks(ids[start : start + 10]), vectors[start : start + 10])
                store.delete(ids[start : start + 5])

        def read(number: int) -> None:
            for row in range(number, 100, 5):
                hits = store.search(vectors[row], 10)
                assert hits[0].score == pytest.approx(1, abs=1e-6)
                assert len(set(ids_of(hits))) == 10

        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, part) for part in range(3)]
            readers = [pool.submit(read, number) for number in range(5)]
            for future in [*writers, *readers]:
                future.result()
        assert store.count() == 100 + 3 * 50


class PersistentVectorStoreSuite(VectorStoreSuite):
    """For a store that outlives its object. Subclass with an `open_store` fixture.

    `open_store` gives a function that opens a store on the same, at first empty place every time.
    """

    @pytest.fixture
    def open_store(self) -> Any:
        """Give the function that opens the store."""
        raise TypeError("a subclass of PersistentVectorStoreSuite must have an `open_store` fixture")

    @pytest.fixture
    def store(self, open_store: Callable[[], VectorStore]) -> Any:
        """Open the store under test, and close it."""
        store = open_store()
        yield store
        store.close()

    def test_reopened_it_holds_what_its_revision_says(self, open_store: Callable[[], VectorStore]) -> None:
        ids, vectors = names(700), cloud(700)
        store = open_store()
        store.upsert(chunks(ids), vectors)
        store.commit(3)
        store.delete(ids[:50])
        store.upsert(chunks(ids[50:60]), -vectors[50:60])
        store.commit(4)
        store.close()
        store = open_store()
        if store.revision < 4:  # what it did not keep comes again from the truth
            store.delete(ids[:50])
            store.upsert(chunks(ids[50:]), np.concatenate([-vectors[50:60], vectors[60:]]))
            store.commit(4)
        held = dict(zip(ids[50:], [*-vectors[50:60], *vectors[60:]], strict=True))
        assert store.count() == 650
        for row in (0, 55, 100):
            assert_alike(store, held, vectors[row], 20)
        store.close()

    def test_reopened_it_refuses_another_dimension(self, open_store: Callable[[], VectorStore]) -> None:
        store = open_store()
        store.upsert(chunks(names(700)), cloud(700))
        store.commit(1)
        store.close()
        store = open_store()
        if store.revision:
            with pytest.raises(ValueError, match="dimension"):
                put(store, {"a": [1, 0]})
        store.close()

    def test_cleared_it_stays_empty_when_reopened(self, open_store: Callable[[], VectorStore]) -> None:
        store = open_store()
        store.upsert(chunks(names(700)), cloud(700))
        store.commit(1)
        store.clear()
        store.close()
        store = open_store()
        assert (store.count(), store.revision) == (0, 0)
        store.close()
