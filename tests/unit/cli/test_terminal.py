"""What a person sees: `kb` on a terminal."""

import os
import re
import subprocess
import sys


def test_a_process_on_a_terminal_prints_a_table_with_headers_short_ids_and_colours(filled, pseudo_terminal):
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"}
    for name in ("NO_COLOR", "COLUMNS"):
        environment.pop(name, None)
    with pseudo_terminal(80) as (end, screen):
        command = [sys.executable, "-m", "kb_core", "list"]
        ended = subprocess.run(command, stdin=end, stdout=end, stderr=end, env=environment, check=False, timeout=120)
    assert ended.returncode == 0, screen.text
    assert "\x1b[1m" in screen.raw
    header, *rows = screen.text.rstrip().splitlines()
    assert header.split() == ["id", "source", "chunks", "characters", "added"]
    assert re.match(r"[0-9a-f]{8}  handbook/errors\.md ", rows[0])
    assert len(rows) == 3
    assert "\t" not in screen.text


def test_nothing_is_wider_than_the_terminal(kb, terminal):
    kb("add", "--text", "word " * 300, "--source", "long/" * 40 + "end.md", "--embedder", "hashing")
    for command in (("list",), ("status",), ("search", "word", "--explain")):
        assert max(map(len, terminal(*command).text.splitlines())) <= 80


def test_each_hit_shows_score_source_and_id(filled, terminal):
    screen = terminal("search", "norway", "--mode", "keyword")
    head, body = screen.text.split("\n", 1)
    assert re.fullmatch(r"1\. \d\.\d{3} bm25  handbook/shipping\.md  [0-9a-f]{8}", head)
    assert "[Score:" not in screen.text
    assert "Parcels to Norway take five working days." in body


def test_a_document_cannot_steer_the_terminal_nor_be_taken_for_markup(kb, terminal):
    hostile = "title \x1b]0;owned\x07 \x1b[2J [bold]kept[/bold] :smile: \x9b31m"
    kb("add", "-", "--source", "a\x1b[2Jb", "--embedder", "hashing", typed=hostile)
    for command in (("search", "title"), ("list",), ("show", "a\x1b[2Jb")):
        seen = terminal(*command).raw
        assert "\x1b]0" not in seen
        assert "\x1b[2J" not in seen
        assert "\x9b" not in seen
    assert "[bold]kept[/bold] :smile:" in terminal("search", "title").text


def test_settings_without_a_value_are_left_out_and_sizes_are_readable(filled, terminal):
    seen = terminal("status").text
    assert re.search(r"^size +\d+\.\d kB *$", seen, re.MULTILINE)
    assert "description" not in seen
    assert "not_embedded" not in seen


def test_an_empty_knowledge_base_says_what_to_do_next(kb, terminal):
    kb("add", "--text", "   ", "--embedder", "hashing")
    assert "kb add PATH" in terminal("list").text
    assert kb("list").stdout == ""


def test_copies_of_a_text_are_named_below_the_hit(kb, terminal):
    for source in ("a", "b"):
        kb("add", "--text", "the same text", "--source", source, "--embedder", "hashing")
    assert re.search("also in [ab]", terminal("search", "same").text)
