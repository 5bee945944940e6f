"""What comes out of `kb`: in poor consoles, in pipes that break, when it is interrupted."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

ROCKET = "Launch 🚀 day for 中文 ✓"


def test_a_console_in_a_legacy_code_page_costs_a_character_and_not_the_run(process):
    ended = process("add", "--text", ROCKET, "--source", "🚀.md", "--embedder", "hashing", PYTHONIOENCODING="cp1252")
    assert ended.returncode == 0, ended.stderr
    ended = process("search", "launch", PYTHONIOENCODING="cp1252")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == b"[Score: 1.000] Launch ? day for ?? ?".split()


@pytest.mark.parametrize("charset", ["cp1252", "ascii", "gbk", "utf-8"])
def test_json_loses_nothing_in_any_code_page(kb, charset):
    kb("add", "--text", ROCKET, "--embedder", "hashing")
    printed = kb("search", "launch", "--json", charset=charset).stdout_bytes
    assert json.loads(printed.decode(charset))[0]["content"] == ROCKET


@pytest.mark.parametrize("command", [("search", "launch"), ("list",), ("show", "🚀.md"), ("search", "x", "--kb", "🚀")])
def test_no_command_fails_for_a_character_that_the_console_lacks(kb, command):
    kb("add", "--text", ROCKET, "--source", "🚀.md", "--embedder", "hashing")
    result = kb(*command, charset="cp1252", code=1 if "--kb" in command else 0)
    assert "?" in result.output


def test_the_c_locale_keeps_text_from_arguments_files_and_standard_input(process, answer, home):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    (home / "notes.md").write_text(ROCKET, encoding="utf-8")
    options = ("--source", "中", "--metadata", "ort=東京", "--embedder", "hashing")
    added = process("add", "notes.md", "-", *options, typed=f"{ROCKET}!".encode(), **plain)
    assert added.returncode == 0, added.stderr
    assert answer("show", "notes.md")["content"] == ROCKET
    assert answer("show", "中")["metadata"]["ort"] == "東京"
    found = process("search", "中文", "--json", "--mode", "keyword", "--where", '{"source": "中"}', **plain)
    assert [hit["content"] for hit in json.loads(found.stdout)] == [f"{ROCKET}!"]


def test_a_reader_that_goes_away_is_no_error(filled):
    command = [sys.executable, "-m", "kb_core", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout
        assert listing.stderr
        listing.stdout.close()
        assert listing.stderr.read() == b""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT for a child process")
def test_an_interruption_ends_with_130_and_changes_nothing(kb, filled):
    command = [sys.executable, "-m", "kb_core", "clear"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as asking:
        assert asking.stderr
        said = b""
        while b"[y/N]" not in said:
            part = asking.stderr.read(100)
            assert part, said
            said += part
        while asking.poll() is None:  # input() drops an interruption that comes while it flushes
            asking.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                asking.wait(timeout=5)
        rest = asking.stderr.read()
    assert asking.returncode == 130
    assert b"Traceback" not in rest
    assert len(kb("list").stdout.splitlines()) == 3
