"""The contract of `MetadataStore`, as tests."""

import threading
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest

from kb_core.documents import Chunk, Document, text_hash
from kb_core.filters import parse_filter
from kb_core.protocols import Changes, DocumentWrite, MetadataStore, Vectors
from kb_core.testing.suite import Suite

MODEL = "suite-model"
DIMENSION = 4


def write(document_id: str, *texts: str, source: str = "a.md", **metadata: Any) -> DocumentWrite:
    """Make a document whose chunks are the texts, with ids `<document id>-<text>`."""
    content = "\n".join(texts)
    document = Document(id=document_id, content=content, source=source, metadata=metadata)
    chunks = []
    start = 0
    for index, text in enumerate(texts):
        chunks.append(
            Chunk(
                id=f"{document_id}-{text}",
                document_id=document_id,
                content=text,
                metadata={**metadata, "source": source},
                index=index,
                start_char=start,
                end_char=start + len(text),
            )
        )
        start += len(text) + 1
    return DocumentWrite(document, chunks, text_hash(content))


def vector_of(text: str) -> Vectors:
    """Make a vector that only this text has."""
    seed = int(text_hash(text)[:8], 16)
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def embeddings_of(*writes: DocumentWrite) -> dict[str, Vectors]:
    """Embed every chunk of the documents."""
    return {text_hash(chunk.content): vector_of(chunk.content) for item in writes for chunk in item.chunks}


def put(store: MetadataStore, *writes: DocumentWrite) -> int:
    """Store documents with their embeddings."""
    return store.put(writes, fingerprint=MODEL, embeddings=embeddings_of(*writes))


def mirror(store: MetadataStore, since: int, held: dict[str, str]) -> int:
    """Bring a dict of chunk id to content up to date, as a view does."""
    revision = since
    for change in store.changes(since, with_vectors=False):
        apply(change, held)
        revision = change.revision
    return revision


def apply(change: Changes, held: dict[str, str]) -> None:
    """Apply one item of the change log."""
    if change.is_reset:
        held.clear()
    for chunk_id in change.deleted:
        held.pop(chunk_id, None)
    held.update((chunk.id, chunk.content) for chunk in change.chunks)


def contents(chunks: Sequence[Chunk]) -> list[str]:
    """Give the chunks' texts."""
    return [chunk.content for chunk in chunks]


class MetadataStoreSuite(Suite):
    """Subclass it and define the fixture `store`: an empty store, closed afterwards."""

    @pytest.fixture
    def store(self) -> MetadataStore:
        raise pytest.UsageError("a subclass of MetadataStoreSuite defines the fixture `store`")

    def test_it_is_a_metadata_store(self, store: MetadataStore) -> None:
        assert isinstance(store, MetadataStore)

    def test_a_new_store_is_empty_and_at_revision_0(self, store: MetadataStore) -> None:
        assert store.revision() == 0
        assert store.counts() == {"documents": 0, "chunks": 0, "pending": 0}
        assert list(store.documents()) == []
        assert store.get_document("a") is None
        assert store.chunks("a") == []
        assert store.get_chunks(["a"]) == []

    def test_a_document_comes_back_as_it_went_in(self, store: MetadataStore) -> None:
        metadata = {"tags": ["a", "b"], "none": None, "deep": {"k": [1, 2.5]}, "when": date(2026, 1, 2), 'q"u.o$te': 1}
        item = write("d", "one", "two ✓ 中文", source="x/y.md", **metadata)
        put(store, item)
        assert store.get_document("d") == item.document
        assert store.chunks("d") == list(item.chunks)

    def test_all_chunks_of_a_document_are_kept(self, store: MetadataStore) -> None:
        put(store, write("d", *(f"chunk {number}" for number in range(50))))
        assert contents(store.chunks("d")) == [f"chunk {number}" for number in range(50)]

    def test_chunks_come_in_the_order_asked_and_unknown_ids_are_left_out(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two", "three"))
        assert contents(store.get_chunks(["d-three", "nothing", "d-one"])) == ["three", "one"]

    def test_chunks_know_what_stands_before_and_after_them(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two", "three"), write("e", "one", source="b.md"))
        store.delete_chunks(["d-two"])
        expected = {"d-one": (None, "d-three"), "d-three": ("d-one", None), "e-one": (None, None)}
        assert store.neighbours(["d-one", "d-three", "e-one", "d-two", "nothing"]) == expected
        assert store.neighbours([]) == {}

    def test_a_chunk_is_a_fresh_object_each_time(self, store: MetadataStore) -> None:
        put(store, write("d", "one", tags=["a"]))
        store.get_chunks(["d-one"])[0].metadata["tags"].append("changed")
        assert store.get_chunks(["d-one"])[0].metadata["tags"] == ["a"]

    def test_metadata_of_a_chunk_alone_is_kept(self, store: MetadataStore) -> None:
        item = write("d", "one", "two", lang="en")
        item.chunks[1].metadata["page"] = 7
        put(store, item)
        assert [chunk.metadata.get("page") for chunk in store.chunks("d")] == [None, 7]

    def test_a_new_version_takes_the_place_of_the_old(self, store: MetadataStore) -> None:
        put(store, write("d", "old", "same"))
        put(store, write("d", "same", "new"))
        assert contents(store.chunks("d")) == ["same", "new"]
        assert store.counts() == {"documents": 1, "chunks": 2, "pending": 0}
        assert store.get_chunks(["d-old"]) == []

    def test_a_document_given_twice_at_once_counts_once(self, store: MetadataStore) -> None:
        put(store, write("d", "first"), write("d", "last"))
        assert contents(store.chunks("d")) == ["last"]

    def test_every_write_is_a_new_revision(self, store: MetadataStore) -> None:
        assert [put(store, write("d", text)) for text in ("a", "b", "c")] == [1, 2, 3]
        assert store.revision() == 3

    def test_a_failed_write_changes_nothing(self, store: MetadataStore) -> None:
        put(store, write("d", "one"))
        good, bad = write("e", "two"), write("f", "three")
        bad.document.metadata["set"] = {1, 2}
        with pytest.raises((TypeError, ValueError)):
            put(store, good, bad)
        assert store.counts()["documents"] == 1
        assert store.revision() == 1

    def test_deleting_a_document_erases_all_of_it(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"), write("e", "three"))
        assert store.delete_documents(["d", "unknown"]) == 1
        assert store.get_document("d") is None
        assert store.chunks("d") == []
        assert store.counts() == {"documents": 1, "chunks": 1, "pending": 0}

    def test_deleting_a_chunk_leaves_the_others(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"))
        assert store.delete_chunks(["d-one", "unknown"]) == 1
        assert contents(store.chunks("d")) == ["two"]

    def test_a_document_that_loses_its_last_chunk_is_erased(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"))
        store.delete_chunks(["d-one", "d-two"])
        assert store.get_document("d") is None

    def test_a_document_that_lost_a_chunk_no_longer_counts_as_unchanged(self, store: MetadataStore) -> None:
        item = write("d", "one", "two")
        put(store, item)
        assert store.content_hashes(["d", "unknown"]) == {"d": item.content_hash}
        store.delete_chunks(["d-one"])
        assert store.content_hashes(["d"]) != {"d": item.content_hash}

    def test_forty_thousand_chunks_go_at_once(self, store: MetadataStore) -> None:
        item = write("d", *(f"{number}" for number in range(40_001)))
        store.put([item], fingerprint=MODEL, embeddings={})
        assert store.delete_chunks([chunk.id for chunk in item.chunks[:-1]]) == 40_000
        assert contents(store.chunks("d")) == ["40000"]

    def test_a_chunk_gets_a_new_text(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"))
        store.update_chunk("d-one", "eins", fingerprint=MODEL, embeddings={text_hash("eins"): vector_of("eins")})
        assert contents(store.chunks("d")) == ["eins", "two"]
        with pytest.raises(KeyError):
            store.update_chunk("unknown", "x", fingerprint=MODEL, embeddings={})

    def test_documents_are_listed_by_source(self, store: MetadataStore) -> None:
        put(store, write("2", "x", source="b"), write("1", "y", source="a", k=1), write("0", "z", source="b"))
        assert [(info.source, info.id) for info in store.documents()] == [("a", "1"), ("b", "0"), ("b", "2")]
        assert [info.id for info in store.documents(source="b")] == ["0", "2"]
        info = next(store.documents(source="a"))
        assert (info.metadata, info.n_chunks, info.n_chars) == ({"k": 1}, 1, 1)

    def test_embeddings_are_kept_by_text_and_model(self, store: MetadataStore) -> None:
        put(store, write("d", "one"))
        hashes = [text_hash("one"), text_hash("two")]
        found = store.embeddings(MODEL, hashes)
        assert list(found) == hashes[:1]
        np.testing.assert_array_equal(found[hashes[0]], vector_of("one"))
        assert store.embeddings("other-model", hashes) == {}

    def test_an_embedding_outlives_its_chunk(self, store: MetadataStore) -> None:
        put(store, write("d", "one"))
        store.delete_documents(["d"])
        assert list(store.embeddings(MODEL, [text_hash("one")])) == [text_hash("one")]

    def test_a_chunk_without_embedding_is_pending_until_it_gets_one(self, store: MetadataStore) -> None:
        item = write("d", "one", "two")
        store.put([item], fingerprint=MODEL, embeddings={text_hash("one"): vector_of("one")})
        assert store.counts()["pending"] == 1
        assert list(store.unembedded()) == ["two"]
        seen = store.revision()
        store.put_embeddings(MODEL, {text_hash("two"): vector_of("two")})
        store.attach_embeddings(MODEL)
        assert store.counts()["pending"] == 0
        changed = [chunk.id for change in store.changes(seen, with_vectors=True) for chunk in change.chunks]
        assert changed == ["d-two"]

    def test_all_chunks_switch_to_another_model_at_once(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"))
        seen = store.revision()
        assert sorted(store.unembedded("new")) == ["one", "two"]
        store.put_embeddings("new", {text_hash(text): vector_of(text) * 2 for text in ("one", "two")})
        store.attach_embeddings("new", switch_to={"embedder": "new"})
        changes = list(store.changes(seen, with_vectors=True))
        assert changes[0].is_reset
        vectors = np.concatenate([change.vectors for change in changes if change.vectors is not None])
        np.testing.assert_array_equal(vectors, np.stack([vector_of("one") * 2, vector_of("two") * 2]))
        assert store.get_setting("embedder") == "new"

    def test_the_log_tells_what_changed_since(self, store: MetadataStore) -> None:
        held: dict[str, str] = {}
        put(store, write("d", "one", "two"), write("e", "three"))
        seen = mirror(store, 0, held)
        put(store, write("d", "two", "four"))
        store.delete_documents(["e"])
        assert mirror(store, seen, held) == store.revision()
        assert held == {"d-two": "two", "d-four": "four"}

    def test_the_log_leaves_out_what_stayed(self, store: MetadataStore) -> None:
        put(store, write("d", "one", "two"))
        seen = store.revision()
        put(store, write("d", "one", "zwei"))
        changed = [chunk.id for change in store.changes(seen, with_vectors=False) for chunk in change.chunks]
        assert changed == ["d-zwei"]

    def test_a_chunk_that_went_and_came_back_is_held(self, store: MetadataStore) -> None:
        held: dict[str, str] = {}
        put(store, write("d", "one"))
        seen = mirror(store, 0, held)
        store.delete_documents(["d"])
        put(store, write("d", "one"))
        mirror(store, seen, held)
        assert held == {"d-one": "one"}

    def test_the_log_comes_in_bounded_batches_with_vectors(self, store: MetadataStore) -> None:
        item = write("d", *(f"{number}" for number in range(10)))
        put(store, item)
        batches = [change for change in store.changes(0, with_vectors=True, batch_size=4) if change.chunks]
        assert [len(change.chunks) for change in batches] == [4, 4, 2]
        for change in batches:
            expected = np.stack([vector_of(chunk.content) for chunk in change.chunks])
            np.testing.assert_array_equal(change.vectors, expected)

    def test_a_view_that_is_ahead_starts_over(self, store: MetadataStore) -> None:
        held = {"from": "another store"}
        put(store, write("d", "one"))
        assert mirror(store, 99, held) == 1
        assert held == {"d-one": "one"}

    def test_clear_erases_documents_and_embeddings_and_keeps_settings(self, store: MetadataStore) -> None:
        held: dict[str, str] = {}
        put(store, write("d", "one"))
        seen = mirror(store, 0, held)
        store.set_settings({"k": 1})
        store.clear()
        mirror(store, seen, held)
        assert held == {}
        assert store.counts() == {"documents": 0, "chunks": 0, "pending": 0}
        assert store.embeddings(MODEL, [text_hash("one")]) == {}
        assert store.get_setting("k") == 1

    def test_a_filter_selects_chunks(self, store: MetadataStore) -> None:
        item = write("d", "one", "two", lang="en")
        item.chunks[1].metadata["page"] = 2
        put(store, item, write("e", "drei", lang="de", source="b.md"))
        assert store.select(parse_filter({"lang": "en"})) == {"d-one", "d-two"}
        assert store.select(parse_filter({"page": 2})) == {"d-two"}
        assert store.select(parse_filter({"source": "b.md"})) == {"e-drei"}
        assert store.select(parse_filter({"lang": {"$ne": "en"}})) == {"e-drei"}
        assert store.select(parse_filter({})) == {"d-one", "d-two", "e-drei"}

    def test_a_filter_sees_the_latest_commit(self, store: MetadataStore) -> None:
        where = parse_filter({"lang": "en"})
        put(store, write("d", "one", lang="en"))
        assert store.select(where) == {"d-one"}
        put(store, write("d", "one", lang="de"))
        assert store.select(where) == frozenset()

    def test_settings_are_json_values(self, store: MetadataStore) -> None:
        assert store.get_setting("k") is None
        store.set_settings({"k": {"a": [1, None, "x"]}, "n": 0})
        assert (store.get_setting("k"), store.get_setting("n")) == ({"a": [1, None, "x"]}, 0)
        assert store.revision() == 0

    def test_threads_may_read_while_one_writes(self, store: MetadataStore) -> None:
        errors: list[BaseException] = []
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    mirror(store, 0, {})
                    store.chunks("d0")
                    assert store.counts()["chunks"] % 3 == 0, "half a document was seen"
            except BaseException as error:  # noqa: BLE001  handed to the test's thread
                errors.append(error)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for number in range(30):
            put(store, write(f"d{number}", "one", "two", "three"))
        done.set()
        for reader in readers:
            reader.join()
        assert errors == []

    def test_threads_may_write_at_once(self, store: MetadataStore) -> None:
        def add(part: int) -> None:
            for number in range(10):
                put(store, write(f"{part}-{number}", f"text {part} {number}"))

        writers = [threading.Thread(target=add, args=(part,)) for part in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert store.counts() == {"documents": 40, "chunks": 40, "pending": 0}
        assert store.revision() == 40

    def test_closing_twice_is_harmless(self, store: MetadataStore) -> None:
        store.close()
        store.close()
