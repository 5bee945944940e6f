"""`kb add`."""

import os
from pathlib import Path

import pytest

from kb_core import LocalKB


def test_a_folder_goes_in_and_a_second_time_costs_nothing(kb, handbook):
    assert kb("add", "handbook", "--embedder", "hashing").stdout == ".kb/default: added 3 (3 chunks)\n"
    again = kb("add", "handbook")
    assert again.stdout == ".kb/default: unchanged 3\n"
    assert again.stderr == ""


def test_a_changed_file_replaces_its_former_version(kb, filled):
    (filled / "returns.md").write_text("You have 60 days now.", encoding="utf-8")
    assert kb("add", "handbook").stdout == ".kb/default: updated 1, unchanged 2 (1 chunk)\n"
    assert "60 days" in kb("search", "days", "--mode", "keyword").stdout
    assert "30 days" not in kb("search", "days", "--mode", "keyword").stdout


def test_a_bad_file_is_listed_and_the_others_go_in(kb, handbook):
    (handbook / "broken.docx").write_bytes(b"PK\x03\x04 this is no archive")
    result = kb("add", "handbook", "--embedder", "hashing", code=1)
    assert result.stdout == ".kb/default: added 3, failed 1 (3 chunks)\n"
    assert result.stderr.startswith("failed: ")
    assert "broken.docx" in result.stderr


def test_a_path_that_is_not_there_is_listed_and_the_others_go_in(kb, handbook):
    result = kb("add", "handbook/returns.md", "typo.md", "--embedder", "hashing", code=1)
    assert result.stdout == ".kb/default: added 1, failed 1 (1 chunk)\n"
    assert "failed: typo.md: there is no such file or folder" in result.stderr


def test_a_path_that_is_not_there_is_never_added_as_text_and_makes_no_knowledge_base(kb, home):
    for path in ("missing.pdf", "just some words", "a\0b"):
        assert kb("add", path, code=1).stdout == "failed 1\n"
    assert not (home / ".kb").exists()


@pytest.mark.skipif(os.name != "posix", reason="names of bytes exist on POSIX alone")
def test_a_name_that_is_not_utf_8_is_reported_in_hexadecimal(answer, home):
    Path(os.fsdecode(b"\xff.txt")).write_text("odd name", encoding="utf-8")
    added = answer("add", os.fsdecode(b"\xff.txt"), os.fsdecode(b"\xfe.txt"), "--embedder", "hashing", code=1)
    assert [failure["source"] for failure in added["failed"]] == [r"\xfe.txt"]
    assert [document["source"] for document in answer("list")] == [r"\xff.txt"]


def test_nothing_to_add_and_two_texts_are_usage_errors(kb, home):
    assert "--text" in kb("add", code=2).stderr
    assert "not both" in kb("add", "-", "--text", "x", code=2).stderr
    assert not (home / ".kb").exists()


def test_a_text_goes_in_under_its_source_and_a_later_one_replaces_it(kb, answer):
    kb("add", "--text", "We close at six.", "--source", "hours", "--embedder", "hashing")
    assert "updated 1" in kb("add", "--text", "We close at seven.", "--source", "hours").stdout
    assert [hit["content"] for hit in answer("search", "close")] == ["We close at seven."]


def test_standard_input_is_a_text(kb, answer):
    kb("add", "-", "--source", "notes", "--embedder", "hashing", typed="Grüße aus dem Lager")
    assert answer("show", "notes")["content"] == "Grüße aus dem Lager"


def test_a_source_for_files_is_a_usage_error(kb, handbook, home):
    assert "--source" in kb("add", "handbook", "--source", "x", code=2).stderr
    assert not (home / ".kb").exists()


def test_metadata_values_are_json_where_they_read_as_such(kb, answer, handbook):
    given = ("lang=en", "year=2026", "draft=false", 'tags=["a","b"]', "zip=01234", "a=b=c", "note=NaN", 'v="1.0"')
    kb(
        "add",
        "handbook/returns.md",
        "--embedder",
        "hashing",
        *(part for pair in given for part in ("--metadata", pair)),
    )
    metadata = answer("show", "returns.md")["metadata"]
    expected = {"lang": "en", "year": 2026, "draft": False, "tags": ["a", "b"], "zip": "01234", "a": "b=c"}
    assert expected.items() <= metadata.items()
    assert metadata["note"] == "NaN"
    assert metadata["v"] == "1.0"


def test_metadata_without_a_key_is_a_usage_error(kb, handbook):
    for pair in ("lang", "=en"):
        assert "KEY=VALUE" in kb("add", "handbook", "--metadata", pair, code=2).stderr


def test_globs_choose_the_files_of_a_folder(kb, answer, handbook):
    kb("add", "handbook", "--include", "*.md", "--exclude", "errors*", "--embedder", "hashing")
    assert [document["source"] for document in answer("list")] == ["handbook/returns.md", "handbook/shipping.md"]


def test_the_report_is_json_on_request(answer, handbook):
    (handbook / "broken.docx").write_bytes(b"no archive")
    report = answer("add", "handbook", "--embedder", "hashing", code=1)
    assert (report["added"], report["unchanged"], report["chunks"]) == (3, 0, 3)
    assert report["failed"][0]["source"] == "handbook/broken.docx"
    assert report["failed"][0]["reason"]


def test_what_the_command_adds_is_what_the_library_finds(kb, filled, home):
    with LocalKB("default", path=home / ".kb") as library:
        assert [document.source for document in library.documents()] == [
            "handbook/errors.md",
            "handbook/returns.md",
            "handbook/shipping.md",
        ]


def test_an_unknown_embedder_is_refused_before_a_knowledge_base_is_made(kb, handbook, home):
    for spec in ("word2vec", "static:x", "fastembed:", "hashing:"):
        assert spec in kb("add", "handbook", "--embedder", spec, code=2).stderr
    assert "no/such-model" in kb("add", "handbook", "--embedder", "fastembed:no/such-model", code=2).stderr
    assert not (home / ".kb").exists()


def test_another_embedder_than_the_recorded_one_is_a_failure_without_a_traceback(kb, filled):
    result = kb("add", "--text", "more", "--embedder", "static", code=1)
    assert "HashingEmbedder" in result.stderr
    assert result.stderr.startswith("Error: ")
