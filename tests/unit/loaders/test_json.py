import json

import pytest

from kb_core.errors import LoaderError
from kb_core.loaders import Limits, load_file


def load(tmp_path, data, name="a.json", **options):
    path = tmp_path / name
    if not isinstance(data, str | bytes):
        data = json.dumps(data)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return load_file(path, source=name, **options)


def text(tmp_path, data, name="a.json"):
    (document,) = load(tmp_path, data, name).documents
    return document.content


def test_an_object_becomes_lines_that_name_each_value(tmp_path):
    value = {
        "name": "Hat",
        "price": 5.5,
        "sold": False,
        "gone": None,
        "size": {"cm": 30, "label": "M"},
        "tags": ["a", 1],
    }
    assert text(tmp_path, value) == "name: Hat\nprice: 5.5\nsold: false\nsize.cm: 30\nsize.label: M\ntags: a, 1"


def test_objects_in_a_list_are_passages(tmp_path):
    value = [{"q": "Where?", "a": "Here."}, {"q": "When?", "a": "Now."}]
    assert text(tmp_path, value) == "q: Where?\na: Here.\n\nq: When?\na: Now."
    assert text(tmp_path, {"faq": value}) == "faq.q: Where?\nfaq.a: Here.\n\nfaq.q: When?\nfaq.a: Now."


@pytest.mark.parametrize(
    ("value", "expected"), [('"word"', "word"), (3, "3"), ([], ""), ({}, ""), ([1, 2], "1, 2"), (None, "")]
)
def test_any_json_value_is_a_document(tmp_path, value, expected):
    assert text(tmp_path, value) == expected


def test_records_with_a_text_become_documents_of_their_own(tmp_path):
    records = [
        {"id": 7, "title": "Returns", "text": "You have 30 days.", "lang": "en", "metadata": {"year": 2024}},
        {"_id": "x", "content": "Shipping is free.", "title": "Shipping", "source": "https://example.org/s"},
        {"page_content": "No id.", "metadata": None},
    ]
    loaded = load(tmp_path, "\n".join(map(json.dumps, records)) + "\n\n", "faq.jsonl", metadata={"team": "web"})
    assert [(d.id, d.source, d.content) for d in loaded.documents] == [
        ("faq.jsonl#7", "faq.jsonl", "Returns\n\nYou have 30 days."),
        ("faq.jsonl#x", "faq.jsonl", "Shipping is free."),
        ("", "faq.jsonl", "No id."),
    ]
    of_file = {"file_name": "faq.jsonl", "file_type": ".jsonl", "team": "web"}
    assert loaded.documents[0].metadata == {"id": 7, "title": "Returns", "lang": "en", "year": 2024, **of_file}
    assert loaded.documents[1].metadata == {
        "_id": "x", "title": "Shipping", "record_source": "https://example.org/s", **of_file,
    }  # fmt: skip
    assert load(tmp_path, records).documents[0].content == loaded.documents[0].content


def test_strings_in_a_list_are_records_too(tmp_path):
    loaded = load(tmp_path, '"first text"\n{"text": "second", "n": 1}\n', "a.jsonl")
    assert [document.content for document in loaded.documents] == ["first text", "second"]
    assert loaded.documents[1].metadata["n"] == 1


def test_a_record_id_given_twice_identifies_only_the_first(tmp_path):
    records = [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}]
    assert [document.id for document in load(tmp_path, records).documents] == ["a.json#1", ""]


def test_a_list_of_which_one_object_has_no_text_is_one_document(tmp_path):
    assert text(tmp_path, [{"text": "a"}, {"text": " "}, {"n": 1}]) == "text: a\n\ntext:  \n\nn: 1"


def test_embeddings_are_left_out_with_a_warning(tmp_path):
    loaded = load(tmp_path, [{"text": "a", "vector": [0.5] * 384, "few": [1, 2]}])
    assert loaded.documents[0].metadata["few"] == [1, 2]
    assert "vector" not in loaded.documents[0].metadata
    assert loaded.warnings == ["'a.json': long lists of numbers were left out: vector"]


def test_json_lines_without_text_are_passages_of_one_document(tmp_path):
    assert text(tmp_path, '{"n": 1}\r\n\r\n{"n": 2}\n', "a.ndjson") == "n: 1\n\nn: 2"


def test_json_lines_named_json_are_read(tmp_path):
    assert text(tmp_path, '{"n": 1}\n{"n": 2}\n') == "n: 1\n\nn: 2"


def test_a_line_separator_inside_a_string_does_not_end_a_record(tmp_path):
    assert text(tmp_path, '{"text": "a\u2028b"}', "a.jsonl") == "a\u2028b"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_with_a_byte_order_mark_is_read(tmp_path, encoding):
    assert text(tmp_path, '{"k": "ä"}'.encode(encoding)) == "k: ä"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.json", '{"a": 1', "line 1"),
        ("a.json", "not json", "not valid JSON"),
        ("a.jsonl", '{"a": 1}\n{"b": \n{"c": 3}', "at line 2, column 7"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"a":' * 100_000, "nested too deeply"),
        ("a.json", "9" * 5000, "not valid JSON"),
        ("a.json", '{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
        ("a.ipynb", "[]", "notebook"),
    ],
)
def test_what_is_no_json_is_refused_with_the_place(tmp_path, name, data, reason):
    with pytest.raises(LoaderError, match=reason):
        load(tmp_path, data, name)


def test_records_whose_fields_cannot_be_kept_are_refused_without_their_text(tmp_path):
    deep = json.loads('{"d":' * 100 + "1" + "}" * 100)
    with pytest.raises(LoaderError, match=r"a\.json.*nested deeper") as caught:
        load(tmp_path, [{"text": "confidential", "extra": deep}])
    assert "confidential" not in str(caught.value)


def test_lone_surrogates_and_nuls_in_escapes_are_replaced(tmp_path):
    loaded = load(tmp_path, '[{"text": "a\\ud800b\\u0000c", "k\\udfff": "\\ud800"}]')
    assert loaded.documents[0].content == "a\ufffdb\ufffdc"
    assert loaded.documents[0].metadata["k\ufffd"] == "\ufffd"
    assert "2 NUL characters or lone surrogates" in loaded.warnings[0]


def test_numbers_that_json_does_not_have_count_as_null(tmp_path):
    assert text(tmp_path, '{"a": NaN, "b": [Infinity, 1], "c": -Infinity}') == "b: 1"


@pytest.mark.parametrize("data", ['{"%s": {"a": 1, "b": 2}}' % ("k" * 20_000), '{"%s": 1}' % ("k" * 20_000)])
def test_keys_that_would_be_repeated_beyond_all_bounds_are_refused(tmp_path, data):
    with pytest.raises(LoaderError, match="keys, joined into a path"):
        load(tmp_path, data)


def test_text_beyond_the_limit_is_refused(tmp_path):
    with pytest.raises(LoaderError, match="longer than 1,000 characters"):
        load(
            tmp_path,
            {"key" * 100: list(range(5)), "rows": [{"key" * 100: i} for i in range(30)]},
            limits=Limits(max_chars=1000),
        )


def test_a_notebook_gives_the_source_of_its_cells(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "![x](data:image/png;base64,AAAA) Text"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"data": {"image/png": "AAAA"}}]},
        {"cell_type": "code", "source": ""},
    ]
    assert text(tmp_path, {"cells": cells, "nbformat": 4}, "a.ipynb") == "# Title\n Text\n\nprint(1)"
