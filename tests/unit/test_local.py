"""LocalKB: what goes in, what comes out, what stays."""

import asyncio
import gc
import json
import os
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from kb_core import (
    Document,
    EmbedderError,
    EmbedderMismatchError,
    InvalidFilterError,
    KBError,
    LocalKB,
    SourceNotFoundError,
    StoreError,
    StoreReadOnlyError,
)
from kb_core.embedders import HashingEmbedder
from kb_core.stores.rank_bm25 import RankBM25KeywordStore
from tests.embedders_of_users import FailingEmbedder, TableEmbedder, WordEmbedder

FRUIT = ["red apple", "green apple", "apple pie", "yellow banana", "ripe cherry"]


def contents(results) -> list[str]:
    return [result.chunk.content for result in results]


# -- adding


def test_text_goes_in_and_comes_out_with_its_source(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    report = kb.add_text("Refunds are paid within 30 days.", source="policy.md", metadata={"lang": "en"})
    assert (report.added, int(report)) == (1, 1)
    hit = kb.search("refunds", top_k=1)[0]
    assert hit.chunk.content == "Refunds are paid within 30 days."
    assert hit.chunk.metadata == {"lang": "en", "source": "policy.md"}
    assert kb.get_document(hit.chunk.document_id).content == "Refunds are paid within 30 days."
    assert kb.get_chunk(hit.chunk.id) == hit.chunk
    assert kb.chunks(hit.chunk.document_id) == [hit.chunk]


def test_blank_text_adds_nothing(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    for text in ("", "   ", "\n\t \u3000"):
        assert int(kb.add(text)) == 0
        assert int(kb.add_text(text)) == 0
    assert kb.status()["documents"] == 0


def test_a_chunk_is_the_slice_of_its_document(make_kb):
    kb = make_kb(embedder=WordEmbedder(), chunk_size=60, chunk_overlap=15)
    text = "  First paragraph of some length.\n\n\n" + "A sentence that is not short. " * 10 + "\n\n  Last.\n"
    kb.add_text(text, source="a")
    document = kb.documents()[0]
    chunks = kb.chunks(document.id)
    assert len(chunks) > 3
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(text[chunk.start_char : chunk.end_char] == chunk.content for chunk in chunks)


def test_nul_and_lone_surrogates_are_replaced_before_offsets_are_taken(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("a\x00b \ud800 word", source="s\x00", metadata={"k\x00": "v\ud800"})
    chunk = kb.search("word")[0].chunk
    assert chunk.content == "a\ufffdb \ufffd word"
    assert chunk.metadata == {"k\ufffd": "v\ufffd", "source": "s\ufffd"}
    assert (chunk.start_char, chunk.end_char) == (0, len("a\x00b \ud800 word"))
    assert kb.search("wo\x00rd \ud800") is not None
    kb.close()
    assert make_kb(embedder=WordEmbedder()).documents()[0].source == "s\ufffd"


def test_the_same_text_twice_is_one_document(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("same text")
    report = kb.add_text("same text")
    assert (report.added, report.unchanged) == (0, 1)
    assert kb.status()["chunks"] == 1


def test_adding_what_is_there_embeds_and_writes_nothing(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    documents = [Document(content=text, source=f"{text}.md") for text in FRUIT]
    kb.add_documents(documents)
    n_embedded, revision = len(embedder.embedded), kb.status()["revision"]
    report = kb.add_documents(documents)
    assert (report.added, report.updated, report.unchanged) == (0, 0, 5)
    assert (len(embedder.embedded), kb.status()["revision"]) == (n_embedded, revision)


def test_a_changed_document_replaces_its_former_self_everywhere(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("about walruses", source="a.md")
    report = kb.add_text("about penguins", source="a.md")
    assert report.updated == 1
    for search_type in ("vector", "keyword", "hybrid"):
        assert contents(kb.search("walruses", search_type=search_type)) in ([], ["about penguins"])
    assert kb.search("walruses", search_type="keyword") == []
    assert contents(kb.search("penguins")) == ["about penguins"]
    assert kb.status()["documents"] == 1


def test_changed_metadata_is_an_update_without_embedding(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    kb.add_text("about penguins", source="a.md", metadata={"v": 1})
    n_embedded = len(embedder.embedded)
    assert kb.add_text("about penguins", source="a.md", metadata={"v": 2}).updated == 1
    assert len(embedder.embedded) == n_embedded
    assert kb.search("penguins", where={"v": 2}) != []
    assert kb.search("penguins", where={"v": 1}) == []


def test_pages_of_one_source_added_together_are_all_kept(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    pages = [
        Document(content=f"page number {number}", source="book.pdf", metadata={"n": number}) for number in range(4)
    ]
    assert kb.add_documents(pages).added == 4
    assert kb.add_documents(pages).unchanged == 4
    report = kb.add_documents(pages[:2])
    assert report.unchanged == 2
    assert sorted(document.metadata["n"] for document in kb.documents(source="book.pdf")) == [0, 1]


def test_the_same_text_with_other_metadata_is_another_document(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content="same", metadata={"lang": lang}) for lang in ("en", "de")])
    assert {hit.chunk.metadata["lang"] for lang in ("en", "de") for hit in kb.search("same", where={"lang": lang})} == {
        "en",
        "de",
    }


def test_a_source_named_in_the_metadata_counts(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content="text", metadata={"source": "https://example.com/a"})])
    assert kb.documents()[0].source == "https://example.com/a"


def test_every_chunk_of_a_document_is_stored(make_kb):
    kb = make_kb(embedder=WordEmbedder(), chunk_size=40, chunk_overlap=0)
    text = "\n\n".join(f"Paragraph number {number} is here." for number in range(50))
    report = kb.add_text(text, source="long.md")
    assert report.chunks == 50 == kb.status()["chunks"]
    for number in (0, 25, 49):
        assert f"number {number} " in kb.search(f"{number}", 1, search_type="keyword")[0].chunk.content


def test_metadata_of_any_shape_comes_back_unchanged(make_kb):
    metadata = {
        "tags": ["a", "b"],
        "x": None,
        "d": {"k": 1, "deep": [{"z": []}]},
        "when": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "price": Decimal("1.10"),
        'k"e.y\\': "v",
    }
    make_kb(embedder=WordEmbedder()).add_text("text", metadata=metadata)
    hit = make_kb(embedder=WordEmbedder()).search("text")[0]
    assert hit.chunk.metadata == {**metadata, "source": ""}


def test_bad_metadata_is_refused_before_anything_is_stored(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    with pytest.raises((TypeError, ValueError), match="tags"):
        kb.add_text("text", metadata={"tags": {1, 2}})
    with pytest.raises(TypeError, match=r"documents\[1\]"):
        kb.add_documents([Document(content="good"), "bad"])
    with pytest.raises(TypeError, match="list of Document"):
        kb.add_documents(Document(content="alone"))
    assert kb.status()["documents"] == 0


def test_numpy_scalars_become_plain_numbers(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("text", metadata={"n": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True)})
    metadata = kb.search("text")[0].chunk.metadata
    assert [type(metadata[key]) for key in "nfb"] == [int, float, bool]


def test_an_id_given_twice_in_one_call_is_said(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    report = kb.add_documents([Document(id="Q", content=text, source=text) for text in ("one", "two")])
    assert (report.added, report.chunks) == (1, 1)
    assert report.warnings == ["the document id 'Q' was given twice: the last one counts"]


# -- paths


def test_a_missing_path_is_an_error_and_never_text(make_kb, tmp_path):
    kb = make_kb(embedder=WordEmbedder())
    for missing in ("docs/missing.pdf", "missing.md", "./nothing", tmp_path / "nothing here.txt"):
        with pytest.raises(SourceNotFoundError) as caught:
            kb.add(missing)
        assert str(missing) in str(caught.value)
        assert isinstance(caught.value, FileNotFoundError)
    assert kb.status()["documents"] == 0


def test_prose_given_to_add_is_text(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    assert int(kb.add("Either/or questions are text, and so is this sentence.")) == 1


def test_a_folder_goes_in_and_one_bad_file_does_not_stop_the_rest(make_kb, tmp_path):
    folder = tmp_path / "handbook"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("# Walruses\n\nThey are large.", encoding="utf-8")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 damaged")
    (folder / "sub" / "b.txt").write_text("penguins are small", encoding="utf-8")
    (folder / ".env").write_text("SECRET=1", encoding="utf-8")
    kb = make_kb(embedder=WordEmbedder())
    report = kb.add(folder, metadata={"team": "zoo"})
    assert (report.added, len(report.failed)) == (2, 1)
    assert report.failed[0].source.endswith("bad.pdf")
    assert {hit.chunk.metadata["team"] for hit in kb.search("walruses penguins")} == {"zoo"}
    again = kb.add(folder, metadata={"team": "zoo"})
    assert (again.added, again.unchanged, len(again.failed)) == (0, 2, 1)
    (folder / "a.md").write_text("# Seals\n\nThey bark.", encoding="utf-8")
    assert kb.add(folder, metadata={"team": "zoo"}).updated == 1
    assert kb.search("walruses", search_type="keyword") == []


def test_metadata_of_a_single_file_is_kept(make_kb, tmp_path):
    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    kb = make_kb(embedder=WordEmbedder())
    kb.add(tmp_path / "a.txt", metadata={"k": "v"})
    assert kb.search("text", where={"k": "v"}) != []


def test_records_that_left_a_file_leave_the_knowledge_base(make_kb, tmp_path):
    file = tmp_path / "faq.jsonl"
    rows = [{"text": f"answer number {number}"} for number in range(3)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    kb = make_kb(embedder=WordEmbedder())
    kb.add(file)
    assert kb.status()["documents"] == 3
    file.write_text(json.dumps(rows[1]), encoding="utf-8")
    kb.add(file)
    assert [document.n_chunks for document in kb.documents()] == [1]
    assert contents(kb.search("answer")) == ["answer number 1"]


# -- searching


def test_top_k_is_checked_and_kept(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content=text) for text in FRUIT])
    for search_type in ("hybrid", "vector", "keyword"):
        assert kb.search("apple", 0, search_type=search_type) == []
        assert len(kb.search("apple", 2, search_type=search_type)) == 2
        assert len(kb.search("apple", 10**6, search_type=search_type)) == (3 if search_type == "keyword" else 5)
        for bad in (-1, True, "5", None, 2.0):
            with pytest.raises(ValueError, match="top_k"):
                kb.search("apple", bad, search_type=search_type)


def test_an_empty_knowledge_base_finds_nothing_and_makes_no_embedder(make_kb):
    kb = make_kb()
    for search_type in ("hybrid", "vector", "keyword"):
        assert kb.search("anything", search_type=search_type) == []


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_a_blank_query_finds_nothing(make_kb, query):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("text")
    assert kb.search(query) == []


@pytest.mark.parametrize("query", ["?!", "the of a", '36" blue', "-foo", "y+(y+25)", "AND OR NOT", "a:b", "'", "*"])
def test_a_query_is_text_and_never_syntax(make_kb, query):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("some text about blue foo")
    assert isinstance(kb.search(query), list)


def test_the_only_document_scores_above_zero(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("the quick brown fox")
    for search_type in ("hybrid", "vector", "keyword"):
        assert kb.search("quick fox", search_type=search_type)[0].score > 0


def test_scores_say_what_they_are(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content=text) for text in FRUIT])
    assert {hit.score_type for hit in kb.search("apple", search_type="vector")} == {"cosine"}
    assert {hit.score_type for hit in kb.search("apple", search_type="keyword")} == {"bm25"}
    assert {hit.score_type for hit in kb.search("apple")} == {"fused"}
    nothing_by_keyword = kb.search("zzz")
    assert {hit.score_type for hit in nothing_by_keyword} == {"cosine"}
    for hit in kb.search("apple", search_type="keyword"):
        assert hit.score == hit.keyword_score


def test_hybrid_results_carry_both_raw_scores(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content=text) for text in FRUIT])
    by_vector = {hit.chunk.id: hit.score for hit in kb.search("red apple", 5, search_type="vector")}
    by_keyword = {hit.chunk.id: hit.score for hit in kb.search("red apple", 5, search_type="keyword")}
    for hit in kb.search("red apple", 5):
        assert hit.vector_score == pytest.approx(by_vector[hit.chunk.id], abs=1e-6)
        assert hit.keyword_score == by_keyword.get(hit.chunk.id)


def test_hybrid_is_the_weighted_sum_of_min_max_scores(make_kb):
    # Vectors: cosines 1, 0.6, 0 with the query. Keywords: "alpha" is in a and c, and shorter c scores higher.
    table = {"q alpha": [1.0, 0.0], "a alpha x y": [1.0, 0.0], "b": [0.6, 0.8], "c alpha": [0.0, 1.0]}
    kb = make_kb(embedder=TableEmbedder(table, [0.0, 1.0]), language=None)
    kb.add_documents([Document(content=text) for text in table if text != "q alpha"])
    scores = {hit.chunk.content: hit.score for hit in kb.search("q alpha", alpha=0.7)}
    # a: .7 * (1 - 0) / (1 - 0) + .3 * 0 (lowest of the keyword list); b: .7 * .6 + 0; c: .7 * 0 + .3 * 1
    assert scores == {
        "a alpha x y": pytest.approx(0.7),
        "b": pytest.approx(0.42),
        "c alpha": pytest.approx(0.3),
    }


def test_equal_keyword_scores_do_not_outvote_the_vectors(make_kb):
    table = {"apple": [1.0, 0.0], "red apple": [0.2, 0.98], "green apple": [0.5, 0.87], "apple pie": [0.9, 0.44]}
    kb = make_kb(embedder=TableEmbedder(table, [0.0, 1.0]))
    kb.add_documents([Document(content=text) for text in ("red apple", "green apple", "apple pie")])
    assert contents(kb.search("apple")) == ["apple pie", "green apple", "red apple"]


def test_a_zero_vector_takes_no_slot_from_a_real_one(make_kb):
    table = {"q": [1.0, 0.0], "one": [1.0, 0.0], "half": [0.5, 0.5], "zero": [0.0, 0.0]}
    kb = make_kb(embedder=TableEmbedder(table, [0.0, 0.0]))
    kb.add_documents([Document(content=text) for text in ("one", "half", "zero")])
    hits = kb.search("q", 2, search_type="vector")
    assert contents(hits) == ["one", "half"]
    assert [hit.score for hit in hits] == [pytest.approx(1.0), pytest.approx(0.70710678)]


def test_the_same_passage_under_two_names_takes_one_slot(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    for source in ("a.pdf", "b.pdf"):
        kb.add_text("the very same passage", source=source)
    kb.add_text("another passage", source="c.pdf")
    hits = kb.search("passage", 2)
    assert sorted(contents(hits)) == ["another passage", "the very same passage"]
    same = next(hit for hit in hits if hit.chunk.content == "the very same passage")
    assert {same.chunk.metadata["source"], *same.also_in} == {"a.pdf", "b.pdf"}
    assert len(make_kb(embedder=WordEmbedder(), collapse_duplicates=False).search("passage", 3)) == 3


def test_min_score_applies_to_the_score_that_is_returned(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content=text) for text in FRUIT])
    for search_type in ("hybrid", "vector", "keyword"):
        everything = kb.search("red apple", search_type=search_type)
        threshold = everything[1].score
        kept = kb.search("red apple", search_type=search_type, min_score=threshold)
        assert [hit.score for hit in kept] == [hit.score for hit in everything if hit.score >= threshold]
    assert kb.search("zzz", min_score=0.0) == [hit for hit in kb.search("zzz") if hit.score >= 0.0]


def test_a_filter_means_the_same_in_every_search_type(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents(
        [
            Document(content=f"apple number {number}", metadata={"even": number % 2 == 0, "n": number})
            for number in range(40)
        ]
    )
    where = {"$and": [{"even": True}, {"n": {"$lt": 20}}]}
    for search_type in ("hybrid", "vector", "keyword"):
        found = {hit.chunk.metadata["n"] for hit in kb.search("apple", 40, search_type=search_type, where=where)}
        assert found == set(range(0, 20, 2))
        assert len(kb.search("apple", 7, search_type=search_type, where=where)) == 7
    with pytest.raises(InvalidFilterError, match=r"\$near"):
        kb.search("apple", where={"n": {"$near": 3}})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"search_type": "fuzzy"}, ValueError),
        ({"alpha": 1.5}, ValueError),
        ({"alpha": "high"}, TypeError),
        ({"alpha": float("nan")}, ValueError),
        ({"min_score": "low"}, TypeError),
    ],
)
def test_wrong_arguments_are_named(make_kb, arguments, error):
    kb = make_kb(embedder=WordEmbedder())
    with pytest.raises(error, match=next(iter(arguments))):
        kb.search("apple", **arguments)
    with pytest.raises(TypeError, match="query"):
        kb.search(None)


def test_a_result_is_json_of_plain_numbers(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("some text", metadata={"n": np.float32(1)})
    for search_type in ("hybrid", "vector", "keyword"):
        hit = kb.search("text", search_type=search_type)[0]
        assert type(hit.score) is float
        assert json.loads(json.dumps(hit.model_dump()))["score"] == hit.score


def test_ties_come_in_the_order_of_ids(make_kb):
    kb = make_kb(embedder=TableEmbedder({}, [1.0, 0.0]), language=None)
    kb.add_documents([Document(content=f"{letter} same") for letter in "dacb"])
    for search_type in ("hybrid", "vector", "keyword"):
        ids = [hit.chunk.id for hit in kb.search("same", search_type=search_type)]
        assert ids == sorted(ids)
        assert [hit.chunk.id for hit in kb.search("same", 2, search_type=search_type)] == ids[:2]


_HASH_SEED = """
import sys
from kb_core import Document, LocalKB
from kb_core.embedders import HashingEmbedder
with LocalKB("seed", persist=False, embedder=HashingEmbedder()) as kb:
    kb.add_documents([Document(content=f"{word} {other}") for word in ("red", "blue") for other in ("x", "y", "z")])
    print([hit.chunk.id for hit in kb.search("red y", 6)])
"""


def test_the_order_does_not_depend_on_the_hash_seed():
    printed = {
        subprocess.run(
            [sys.executable, "-c", _HASH_SEED],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (0, 1, 42)
    }
    assert len(printed) == 1


# -- changing and deleting


def test_an_updated_chunk_is_found_by_its_new_text_alone(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("about walruses", source="a.md")
    chunk = kb.search("walruses")[0].chunk
    assert kb.update(chunk.id, "about penguins").id == chunk.id
    assert kb.search("walruses", search_type="keyword") == []
    assert kb.search("penguins", search_type="vector")[0].score == pytest.approx(0.7071, abs=1e-3)
    for bad in ("", "  "):
        with pytest.raises(ValueError, match="blank"):
            kb.update(chunk.id, bad)
    with pytest.raises(ValueError, match="no chunk"):
        kb.update("unknown", "text")


def test_deleting_a_source_erases_every_trace(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("tall walruses", source="a.md")
    kb.add_text("tall penguins", source="b.md")
    assert kb.delete_by_source("a.md") == 1
    assert kb.delete_by_source("a.md") == 0
    assert [document.source for document in kb.documents()] == ["b.md"]
    for search_type in ("hybrid", "vector", "keyword"):
        assert contents(kb.search("walruses tall", search_type=search_type)) == ["tall penguins"]


def test_deleting_one_chunk_embeds_nothing_again(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    kb.add_documents([Document(content=text) for text in FRUIT])
    n_embedded = len(embedder.embedded)
    victim = kb.search("banana", 1, search_type="keyword")[0].chunk
    assert kb.delete(victim.id) == 1
    assert len(kb.search("zzz", 10, search_type="vector")) == 4
    assert embedder.embedded[n_embedded:] == ["zzz"]


def test_what_was_deleted_can_be_added_again_without_embedding(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    kb.add_text("text one")
    n_embedded = len(embedder.embedded)
    kb.delete(kb.search("one", search_type="keyword")[0].chunk.id)
    assert kb.search("one", search_type="keyword") == []
    assert kb.add_text("text one").added == 1
    assert contents(kb.search("one", search_type="keyword")) == ["text one"]
    assert len(embedder.embedded) == n_embedded


def test_stores_agree_after_any_order_of_changes(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    for text in ("a one", "b two", "c three"):
        kb.add_text(text, document_id=text[0])
    kb.delete_document("b")
    kb.add_text("d four", document_id="d")
    for search_type in ("vector", "keyword"):
        assert contents(kb.search("four", 1, search_type=search_type)) == ["d four"]
    assert len(kb.search("one three four two", 10, search_type="vector")) == 3
    assert len(kb.search("one three four two", 10, search_type="keyword")) == 3


def test_clear_erases_all_and_lets_any_embedder_follow(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("text")
    kb.clear()
    assert (kb.search("text"), kb.status()["documents"]) == ([], 0)
    kb.close()
    other = make_kb(embedder=HashingEmbedder())
    other.add_text("text")
    assert contents(other.search("text")) == ["text"]


# -- reopening


def test_a_restart_embeds_nothing(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    kb.add_documents([Document(content=text) for text in FRUIT])
    before = kb.search("red apple")
    kb.close()
    n_embedded = len(embedder.embedded)
    again = make_kb(embedder=embedder)
    assert again.search("red apple") == before
    assert embedder.embedded[n_embedded:] == ["red apple"]


def test_only_texts_are_embedded_each_once(make_kb):
    embedder = WordEmbedder()
    kb = make_kb(embedder=embedder)
    kb.add_documents([Document(content=text, source=f"{n}") for n in range(2) for text in ("one", "two")])
    kb.add_text("one", source="elsewhere")
    assert sorted(embedder.embedded) == ["one", "two"]


def test_settings_are_remembered(make_kb):
    make_kb(embedder=WordEmbedder(), chunk_size=99, chunk_overlap=7, search_type="keyword", alpha=0.3, language="de")
    status = make_kb(embedder=WordEmbedder()).status()
    remembered = {name: status[name] for name in ("chunk_size", "chunk_overlap", "search_type", "alpha", "language")}
    assert remembered == {
        "chunk_size": 99,
        "chunk_overlap": 7,
        "search_type": "keyword",
        "alpha": 0.3,
        "language": "de",
    }


def test_another_language_rebuilds_the_keyword_index(make_kb):
    kb = make_kb(embedder=WordEmbedder(), language="en")
    kb.add_text("searching")
    assert kb.search("searched", search_type="keyword") != []
    kb.close()
    plain = make_kb(embedder=WordEmbedder(), language=None)
    assert plain.search("searched", search_type="keyword") == []
    assert plain.search("searching", search_type="keyword") != []


def test_the_recorded_embedder_is_picked_on_reopening(make_kb):
    make_kb(embedder=HashingEmbedder(dimension=128)).add_text("some text")
    again = make_kb()
    assert contents(again.search("text", search_type="vector")) == ["some text"]
    assert "128" in again.status()["embedder"]


def test_a_user_s_own_embedder_must_be_given_again(make_kb):
    make_kb(embedder=WordEmbedder()).add_text("some text")
    kb = make_kb()
    assert contents(kb.search("text", search_type="keyword")) == ["some text"]
    with pytest.raises(EmbedderError, match="embedder="):
        kb.search("text")


class Named:
    def __init__(self, name: str, dimension: int = 2) -> None:
        self.fingerprint = name
        self.dimension = dimension

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [[1.0] + [0.0] * (self.dimension - 1) for _ in texts]


def test_another_embedder_is_refused_also_at_equal_dimension(make_kb):
    make_kb(embedder=Named("first")).add_text("text")
    with pytest.raises(EmbedderMismatchError, match=r"first.*second.*reembed"):
        make_kb(embedder=Named("second"))
    with pytest.raises(EmbedderMismatchError, match=r"WordEmbedder"):
        make_kb(embedder=WordEmbedder())


def test_another_dimension_of_the_same_class_is_refused(make_kb):
    make_kb(embedder=WordEmbedder(8)).add_text("text")
    kb = make_kb(embedder=WordEmbedder(16))
    with pytest.raises(EmbedderMismatchError, match=r"8.*16.*reembed"):
        kb.search("text")
    with pytest.raises(EmbedderMismatchError):
        make_kb(embedder=WordEmbedder(16)).add_text("more")
    assert make_kb(embedder=WordEmbedder(8)).status()["chunks"] == 1


def test_reembed_moves_everything_to_another_embedder(make_kb):
    kb = make_kb(embedder=Named("first"))
    kb.add_documents([Document(content=text) for text in FRUIT])
    embedder = WordEmbedder(32)
    assert kb.reembed(embedder) == 5
    assert contents(kb.search("banana", 1, search_type="vector")) == ["yellow banana"]
    with pytest.raises(EmbedderMismatchError):
        make_kb(embedder=Named("first"))
    kb.close()
    assert contents(make_kb(embedder=WordEmbedder(32)).search("ripe cherry", 1)) == ["ripe cherry"]


def test_a_failed_reembed_changes_nothing_and_goes_on_later(make_kb):
    kb = make_kb(embedder=Named("first"))
    kb.add_documents([Document(content=f"text {number}") for number in range(1000)])
    embedder = FailingEmbedder(after=600)
    with pytest.raises(EmbedderError):
        kb.reembed(embedder)
    assert len(kb.search("text 1", 3)) == 3
    assert "first" in kb.status()["embedder"]
    n_done = len(set(embedder.embedded) - {"dimension"})
    embedder.is_failing = False
    assert kb.reembed(embedder) == 1000 - n_done
    assert 0 < n_done < 1000


# -- embedders that fail


def test_an_embedder_that_fails_loses_nothing_and_is_never_faked(make_kb):
    embedder = FailingEmbedder()
    kb = make_kb(embedder=embedder)
    with pytest.raises(EmbedderError, match="Nothing is lost"):
        kb.add_text("about walruses")
    assert kb.status()["not_embedded"] == 1
    assert contents(kb.search("walruses", search_type="keyword")) == ["about walruses"]
    embedder.is_failing = False
    kb.add_text("about penguins")
    assert kb.status()["not_embedded"] == 0
    assert contents(kb.search("walruses", 1, search_type="vector")) == ["about walruses"]


def test_what_an_embedder_did_before_it_failed_is_kept(make_kb):
    embedder = FailingEmbedder(after=1024)
    kb = make_kb(embedder=embedder)
    documents = [Document(content=f"text {number}") for number in range(1500)]
    with pytest.raises(EmbedderError):
        kb.add_documents(documents)
    assert len(embedder.embedded) == 1024
    embedder.is_failing = False
    kb.add_documents(documents)
    assert sorted(embedder.embedded) == sorted(document.content for document in documents)
    assert kb.status()["not_embedded"] == 0


@pytest.mark.parametrize(
    ("vectors", "message"),
    [([[1.0, 0.0]], "1 vectors for 2 texts"), ([[1.0, float("nan")], [1.0, 0.0]], "not finite"), ("no", "list")],
)
def test_nonsense_from_an_embedder_is_refused_and_nothing_is_stored(make_kb, vectors, message):
    kb = make_kb(embedder=lambda texts: vectors)
    with pytest.raises(EmbedderError, match=message):
        kb.add_documents([Document(content="one"), Document(content="two")])
    assert kb.status()["documents"] == 0


def test_a_vector_that_is_not_finite_is_refused_with_its_chunk_named(make_kb):
    kb = make_kb(embedder=TableEmbedder({"bad": [1.0, float("inf")]}, [1.0, 0.0]))
    with pytest.raises(EmbedderError, match=r"not finite.*of chunk [0-9a-f]{32} from 'b\.md'"):
        kb.add_documents([Document(content=text, source=f"{text[0]}.md") for text in ("good", "bad", "fine")])
    assert kb.status()["documents"] == 0


# -- many at once


def test_another_object_on_the_same_path_sees_what_was_added(make_kb):
    first, second = make_kb(embedder=WordEmbedder()), make_kb(embedder=WordEmbedder())
    assert second.search("walruses") == []
    first.add_text("about walruses")
    assert contents(second.search("walruses")) == ["about walruses"]
    second.delete_by_source("")
    assert first.search("walruses") == []


async def test_every_verb_has_an_awaitable_twin(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    assert (await kb.aadd_text("about walruses", source="a")).added == 1
    hits = await kb.asearch("walruses")
    assert hits == kb.search("walruses")
    assert (await kb.astatus())["documents"] == 1
    await asyncio.gather(*(kb.aadd_text(f"text {number}") for number in range(10)))
    assert len(await kb.adocuments()) == 11
    assert await kb.adelete_by_source("a") == 1
    async with LocalKB("other", persist=False, embedder=WordEmbedder()) as other:
        await other.aadd_documents([Document(content="x")])
    sync = {name for name in vars(LocalKB) if not name.startswith("_") and callable(getattr(LocalKB, name))}
    verbs = {name for name in sync if not (name.startswith("a") and name[1:] in sync)}
    assert verbs - {"as_tool"} == {name[1:] for name in sync if name.startswith("a") and name[1:] in sync}


def test_a_store_of_the_user_s_own_takes_part(make_kb):
    keywords = RankBM25KeywordStore()
    kb = make_kb(embedder=WordEmbedder(), keyword_store=keywords)
    kb.add_text("about walruses")
    assert contents(kb.search("walruses", search_type="keyword")) == ["about walruses"]
    assert keywords.count() == 1


# -- opening and closing


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "", "  ", "a\\b", "a\0b", "/etc", "x" * 300, "a\nb"])
def test_names_that_would_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="name"):
        LocalKB(name, path=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"chunk_size": 0},
        {"chunk_size": 10, "chunk_overlap": 10},
        {"chunk_size": 10, "chunk_overlap": 11},
        {"chunk_overlap": -1},
        {"search_type": "x"},
        {"alpha": 2},
        {"fusion": "x"},
        {"index_type": "x"},
        {"language": "klingon"},
    ],
)
def test_bad_settings_are_refused_before_anything_is_created(tmp_path, options):
    with pytest.raises(ValueError, match=r"\w"):
        LocalKB("docs", path=tmp_path / "kbs", **options)
    assert list(tmp_path.iterdir()) == []


def test_names_of_any_script_are_folders(make_kb):
    kb = make_kb("産品手冊 v2", embedder=WordEmbedder())
    kb.add_text("text")
    assert "産品手冊 v2" in kb.as_tool().description
    assert kb.as_tool().name.isascii()


def test_home_is_where_knowledge_bases_live(tmp_path, monkeypatch):
    monkeypatch.setenv("KB_HOME", str(tmp_path / "home"))
    with LocalKB("docs", embedder=WordEmbedder()):
        assert (tmp_path / "home" / "docs" / "kb.sqlite").is_file()
    monkeypatch.delenv("KB_HOME")
    monkeypatch.chdir(tmp_path)
    with LocalKB("docs", embedder=WordEmbedder()):
        assert (tmp_path / ".kb" / "docs" / "kb.sqlite").is_file()


def test_in_memory_leaves_nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LocalKB("docs", persist=False, embedder=WordEmbedder()) as kb:
        kb.add_text("about walruses")
        assert contents(kb.search("walruses")) == ["about walruses"]
    assert list(tmp_path.iterdir()) == []


def test_read_only_searches_creates_nothing_and_says_what_it_cannot_do(make_kb, tmp_path):
    kb = make_kb(embedder=WordEmbedder())
    kb.add_text("about walruses")
    kb.close()
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    reader = make_kb(embedder=WordEmbedder(), read_only=True)
    assert contents(reader.search("walruses")) == ["about walruses"]
    with pytest.raises(StoreReadOnlyError, match="read-only"):
        reader.add_text("more")
    reader.close()
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    with pytest.raises(SourceNotFoundError):
        make_kb("none", read_only=True)


def test_a_closed_knowledge_base_says_so(make_kb):
    kb = make_kb(embedder=WordEmbedder())
    kb.close()
    kb.close()
    with pytest.raises(StoreError, match="closed"):
        kb.search("text")


def test_a_forgotten_knowledge_base_is_closed_when_it_is_collected(tmp_path):
    kb = LocalKB("docs", path=tmp_path, embedder=WordEmbedder())
    kb.add_text("text")
    finalizer = kb._finalizer
    del kb
    gc.collect()
    assert not finalizer.alive


def test_the_index_can_be_deleted_at_any_time(make_kb, tmp_path):
    import shutil

    kb = make_kb(embedder=WordEmbedder())
    kb.add_documents([Document(content=text) for text in FRUIT])
    before = kb.search("red apple")
    kb.close()
    shutil.rmtree(tmp_path / "kbs" / "docs" / "index", ignore_errors=True)
    assert make_kb(embedder=WordEmbedder()).search("red apple") == before


def test_status_is_json_and_loads_no_engine(make_kb):
    make_kb(embedder=HashingEmbedder()).add_text("text")
    kb = make_kb()
    status = json.loads(json.dumps(kb.status()))
    assert (status["name"], status["documents"], status["chunks"], status["not_embedded"]) == ("docs", 1, 1, 0)
    assert status["size_bytes"] > 0


_LAZY = """
import sys
import kb_core
heavy = {"langchain_core", "llama_index", "agents", "openai", "fastembed", "faiss", "tantivy", "onnxruntime", "httpx",
         "rich", "click", "lxml", "pypdf", "docx", "wordllama", "tokenizers", "opentelemetry.sdk"}
print(sorted(heavy & set(sys.modules)))
"""


def test_importing_the_core_loads_nothing_heavy():
    printed = subprocess.run([sys.executable, "-c", _LAZY], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"


def test_every_public_name_is_listed_and_sorted():
    import kb_core

    assert sorted(kb_core.__all__) == kb_core.__all__
    assert all(hasattr(kb_core, name) for name in kb_core.__all__)
    assert all(issubclass(getattr(kb_core, name), KBError) for name in kb_core.__all__ if name.endswith("Error"))


_LOCALE = """
from kb_core import LocalKB
from kb_core.embedders import HashingEmbedder
import sys
with LocalKB("docs", path=sys.argv[1], embedder=HashingEmbedder()) as kb:
    kb.add_text("中文 ✓ text", source="文.md")
with LocalKB("docs", path=sys.argv[1]) as kb:
    hit = kb.search("中文")[0]
    assert hit.chunk.content == "中文 ✓ text", ascii(hit)
    assert hit.chunk.metadata["source"] == "文.md"
"""


def test_text_survives_a_locale_that_is_not_utf8(tmp_path):
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    program = Path(tmp_path, "program.py")
    program.write_text(_LOCALE, encoding="utf-8")
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, env=environment)
