# ruff: noqa: S301  # only our own pickles are read
import copy
import json
import pickle
import re
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_core.documents import Chunk, SearchResult
from kb_core.formatting import (
    SearchText,
    format_result,
    format_results,
    is_legal_tool_name,
    result_dict,
    tool_name,
)


def hit(content="Returns within 30 days.", score=0.7, **metadata):
    chunk = Chunk(
        id="c1",
        document_id="d1",
        content=content,
        metadata=metadata,
        index=2,
        start_char=10,
        end_char=10 + len(content),
    )
    return SearchResult(
        chunk=chunk, score=score, score_type="fused", vector_score=0.5, keyword_score=None, also_in=["b.md"]
    )


# The text.


@pytest.mark.parametrize(
    ("score", "shown"),
    [(0.7, "0.700"), (1, "1.000"), (0.0, "0.000"), (0.12345, "0.123"), (12.3456, "12.346"), (-0.25, "-0.250")],
)
def test_a_hit_is_its_score_with_three_digits_and_its_text(score, shown):
    assert format_result(hit("Text {with} [brackets]\nand lines", score)) == (
        f"[Score: {shown}] Text {{with}} [brackets]\nand lines"
    )


def test_hits_are_joined_by_a_blank_line_in_their_order():
    assert format_results([hit("one", 0.9), hit("two", 0.95)]) == "[Score: 0.900] one\n\n[Score: 0.950] two"
    assert format_results(iter([hit("one", 0.9)])) == "[Score: 0.900] one"


def test_nothing_found_is_said():
    assert format_results([]) == "No results found."


def test_metadata_follows_only_where_it_is_asked_for_and_there():
    found = hit("one", 0.9, source="policy.md", page=3, url="https://example.org/p", when=date(2024, 5, 1))
    assert format_result(found) == "[Score: 0.900] one"
    assert format_result(found, ["source", "page", "lang", "when"]) == (
        "[Score: 0.900] one\n(source: policy.md, page: 3, when: 2024-05-01)"
    )
    assert format_results([found, hit("two", 0.8)], ["url"]) == (
        "[Score: 0.900] one\n(url: https://example.org/p)\n\n[Score: 0.800] two"
    )


# The text that remembers.


def test_search_text_is_a_string_with_results():
    text = SearchText("[Score: 0.700] x", [hit("x")])
    assert text == "[Score: 0.700] x"
    assert isinstance(text, str)
    assert json.dumps({"output": text}) == '{"output": "[Score: 0.700] x"}'
    assert type(str(text)) is str
    assert SearchText("No results found.").results == []


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_search_text_survives_being_copied(duplicate):
    text = SearchText("[Score: 0.700] x", [hit("x", page=3)])
    again = duplicate(text)
    assert type(again) is SearchText
    assert again == text
    assert again.results == text.results


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_search_text_survives_being_pickled(protocol):
    text = SearchText("[Score: 0.700] x", [hit("x", page=3)])
    again = pickle.loads(pickle.dumps(text, protocol))
    assert type(again) is SearchText
    assert again == text
    assert again.results == text.results


def test_a_deep_copy_of_search_text_shares_nothing():
    text = SearchText("x", [hit("x")])
    again = copy.deepcopy([text])[0]
    again.results[0].chunk.metadata["page"] = 4
    again.results.append(hit("y"))
    assert text.results == [hit("x")]


# The dict.


def test_a_hit_as_a_dict_has_everything_and_is_strict_json():
    found = hit("x", np.float32(0.5), source="a.md", when=date(2024, 5, 1), price=Decimal("1.10"), nan=float("nan"))
    assert result_dict(found) == {
        "chunk_id": "c1",
        "document_id": "d1",
        "content": "x",
        "score": 0.5,
        "score_type": "fused",
        "vector_score": 0.5,
        "keyword_score": None,
        "source": "a.md",
        "metadata": {"source": "a.md", "when": "2024-05-01", "price": "1.10", "nan": None},
        "start_char": 10,
        "end_char": 11,
        "index": 2,
        "also_in": ["b.md"],
    }
    assert json.loads(json.dumps(result_dict(found), allow_nan=False)) == result_dict(found)


def test_the_dict_shares_nothing_with_the_hit():
    found = hit("x", tags=["a"])
    as_dict = result_dict(found)
    as_dict["metadata"]["tags"].append("b")
    as_dict["also_in"].append("c.md")
    assert found == hit("x", tags=["a"])
    assert as_dict["source"] == ""


# Names.


@pytest.mark.parametrize("name", ["docs", "Product-docs_2", "a" * 57, "-", "__x__"])
def test_a_legal_name_stays_as_it_is(name):
    assert tool_name(name) == f"search_{name}"


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("Google Search", "search_Google_Search_"),
        ("Product docs (EU)", "search_Product_docs_EU_"),
        ("Rückgaben", "search_Ruckgaben_"),
        ("a/b.c", "search_a_b_c_"),
        ("docs\n", "search_docs_"),
        ("産品手冊", "search_"),
        ("🙂", "search_"),
        ("\ud800", "search_"),
        ("a" * 80, "search_" + "a" * 50 + "_"),
    ],
)
def test_any_other_name_is_made_legal_and_ends_in_a_digest(name, readable):
    made = tool_name(name)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", made)
    assert re.fullmatch(re.escape(readable) + "[0-9a-f]{6}", made)
    assert made == tool_name(name)


def test_names_that_look_alike_stay_apart():
    names = ["a b", "a_b", "a-b", "a.b", "a  b", "A b", "産品", "手冊", "x" * 80, "x" * 81, "é", "e"]
    assert len({tool_name(name) for name in names}) == len(names)


@given(st.text(min_size=1).filter(str.strip))
def test_every_name_gives_a_legal_one(name):
    assert is_legal_tool_name(tool_name(name))


@pytest.mark.parametrize("name", ["", "  ", "\n"])
def test_a_blank_name_is_refused(name):
    with pytest.raises(ValueError, match="must not be blank"):
        tool_name(name)


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="must be str, got NoneType"):
        tool_name(None)


@pytest.mark.parametrize("name", ["", "a b", "a" * 65, "docs\n", "é", "a.b"])
def test_these_are_not_legal(name):
    assert not is_legal_tool_name(name)
