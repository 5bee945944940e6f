"""Any bytes under any name: documents, or an error of ours."""

import contextlib
import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb_core.errors import KBError
from kb_core.loaders import load_file, looks_like_path
from kb_core.loaders.decoding import decode

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = [
    "a.txt",
    "a.md",
    "a.py",
    "a.html",
    "a.csv",
    "a.tsv",
    "a.json",
    "a.jsonl",
    "a.ipynb",
    "a.docx",
    "a.xml",
    "noname",
]
STARTS = [
    b"",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\0\0\xfe\xff",
    b"PK\x03\x04",
    b"<html>",
    b"[",
    b'{"a":',
    b"a,b\n",
    b"# coding: ",
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["text", "id"]), inner, max_size=4)
    ),
    max_leaves=20,
)


def load(name, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return load_file(path)


@QUICK
@given(name=st.sampled_from(NAMES), start=st.sampled_from(STARTS), data=st.binary(max_size=400))
def test_any_bytes_give_documents_or_an_error_of_ours(name, start, data):
    with contextlib.suppress(KBError):
        for document in load(name, start + data).documents:
            document.content.encode()


@QUICK
@given(pages=st.integers(0, 400), data=st.binary(max_size=60))
def test_a_pdf_with_damage_anywhere_gives_documents_or_an_error_of_ours(make_pdf_once, pages, data):
    whole = make_pdf_once
    place = pages * len(whole) // 400
    with contextlib.suppress(KBError):
        load("a.pdf", whole[:place] + data + whole[place + len(data) :])


@QUICK
@given(text=st.text(max_size=300))
def test_utf8_always_comes_back_whole(text):
    decoded = decode(text.encode("utf-8", "replace"))
    assert decoded.encoding in {"utf-8", "utf-16", "utf-32", "utf-16-le", "utf-16-be"}
    if decoded.encoding == "utf-8" and not text.startswith("\ufeff") and not text.endswith("\0"):
        assert decoded.text == text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")


@QUICK
@given(value=json_values)
def test_every_json_value_is_read_with_all_its_strings(value):
    loaded = load("a.json", json.dumps({"value": value}).encode())
    (document,) = loaded.documents
    assert all(string in document.content for string in _strings(value) if string.isascii() and "\0" not in string)


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


@QUICK
@given(text=st.text(max_size=300))
def test_every_text_is_told_from_a_path_without_an_error(text):
    assert looks_like_path(text) in {True, False}
