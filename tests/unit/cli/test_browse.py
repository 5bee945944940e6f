"""`kb list`, `kb show`, `kb status`, and which knowledge base is meant."""

import pytest

from kb_core import LocalKB


def test_a_line_of_the_list_is_a_document(kb, filled):
    lines = [line.split("\t") for line in kb("list").stdout.splitlines()]
    assert [line[1] for line in lines] == ["handbook/errors.md", "handbook/returns.md", "handbook/shipping.md"]
    assert all(len(line) == 5 and len(line[0]) == 32 for line in lines)
    assert [line[2] for line in lines] == ["1", "1", "1"]


def test_a_source_with_tabs_and_newlines_stays_on_its_line(kb, home):
    kb("add", "--text", "x", "--source", "a\tb\nc\\d", "--embedder", "hashing")
    (line,) = kb("list").stdout.splitlines()
    assert line.split("\t")[1] == r"a\tb\nc\\d"


def test_a_document_is_shown_by_id_beginning_of_id_source_and_end_of_source(answer, filled):
    document = next(document for document in answer("list") if document["source"] == "handbook/returns.md")
    for reference in (document["id"], document["id"][:10], "handbook/returns.md", "returns.md"):
        shown = answer("show", reference)
        assert (shown["kind"], shown["id"]) == ("document", document["id"])
        assert shown["content"] == "# Returns\n\nUnused items can be sent back within 30 days.\n"


def test_a_chunk_is_shown_by_id_and_beginning_of_id(answer, filled):
    (chunk_id,) = answer("show", "returns.md")["chunks"]
    for reference in (chunk_id, chunk_id[:10]):
        shown = answer("show", reference)
        assert (shown["kind"], shown["id"], shown["index"], shown["start_char"]) == ("chunk", chunk_id, 0, 0)


def test_the_text_follows_the_fields(kb, filled):
    fields, _, text = kb("show", "shipping.md").stdout.partition("\n\n")
    assert "source\thandbook/shipping.md" in fields.splitlines()
    assert text.strip() == "# Shipping\n\nParcels to Norway take five working days."


def test_what_is_not_there_and_what_is_ambiguous_are_failures(kb, filled):
    assert "kb list" in kb("show", "zebra", code=1).stderr
    several = kb("show", "", code=1).stderr  # every id begins with nothing
    assert "6 items" in several


def test_the_status_is_the_library_s(answer, kb, filled, home):
    status = answer("status")
    with LocalKB("default", path=home / ".kb", read_only=True) as library:
        assert status == {**library.status(), "path": status["path"]}
    assert (status["documents"], status["chunks"]) == (3, 3)
    assert "documents\t3" in kb("status").stdout.splitlines()


@pytest.mark.parametrize(
    "command", [("list",), ("status",), ("show", "x"), ("search", "x"), ("delete", "x"), ("clear",)]
)
def test_a_knowledge_base_that_is_not_there_is_not_made(kb, home, command):
    stderr = kb(*command, "--kb", "docs", code=1).stderr
    assert "no knowledge base 'docs'" in stderr
    assert "kb add PATH --kb docs" in stderr
    assert list(home.iterdir()) == []


def test_the_message_names_the_knowledge_bases_that_are_there(kb, filled):
    assert "there is default" in kb("list", "--kb", "defualt", code=1).stderr


@pytest.mark.parametrize("name", ["../x", "..", ".", "a/b", "a\\b", " ", "x" * 300, "a\nb"])
def test_a_name_that_leaves_its_folder_is_a_usage_error(kb, handbook, home, name):
    for command in (("add", "handbook"), ("list",), ("clear", "--yes")):
        stderr = kb(*command, "--kb", name, code=2).stderr
        assert "--kb" in stderr
    assert sorted(path.name for path in home.iterdir()) == ["handbook"]


def test_the_options_stand_before_or_after_the_command_and_the_later_one_counts(answer, kb, handbook, home):
    kb("--kb", "docs", "--path", "elsewhere", "--embedder", "hashing", "add", "handbook")
    assert (home / "elsewhere" / "docs" / "kb.sqlite").is_file()
    assert len(answer("list", "--kb", "docs", "--path", "elsewhere")) == 3
    assert len(answer("--kb", "other", "--path", "elsewhere", "list", "--kb", "docs")) == 3


def test_the_environment_names_folder_and_knowledge_base(kb, handbook, home, monkeypatch):
    monkeypatch.setenv("KB_HOME", str(home / "kept"))
    monkeypatch.setenv("KB_NAME", "docs")
    kb("add", "handbook", "--embedder", "hashing")
    assert (home / "kept" / "docs" / "kb.sqlite").is_file()
    kb("list", "--kb", "default", code=1)


def test_looking_writes_nothing(kb, filled, home):
    def snapshot():
        return {path: path.stat().st_mtime_ns for path in (home / ".kb").rglob("*")}

    before = snapshot()
    for command in (("list",), ("status",), ("show", "returns.md")):
        kb(*command)
    assert snapshot() == before


def test_damage_is_a_message(kb, filled, home):
    (home / ".kb" / "default" / "kb.sqlite").write_bytes(b"this is no database" * 100)
    for command in (("list",), ("search", "x"), ("add", "handbook")):
        assert kb(*command, code=1).stderr.startswith("Error: ")
