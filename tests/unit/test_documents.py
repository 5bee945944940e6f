# ruff: noqa: S301  # only our own pickles are read
import copy
import json
import pickle
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from pydantic import ValidationError

from kb_core.documents import AddReport, Chunk, Document, Failure, SearchResult, clean_text, text_hash


def result(**fields):
    return SearchResult(
        **{"chunk": Chunk(id="c", document_id="d", content="x"), "score": 0.5, "score_type": "fused", **fields}
    )


def test_a_document_needs_only_content():
    document = Document(content="text")
    assert (document.id, document.source, document.metadata) == ("", "", {})


@pytest.mark.parametrize("fields", [{}, {"content": None}, {"content": 3}, {"content": "x", "text": "y"}])
def test_a_document_without_text_or_with_an_unknown_field_is_refused(fields):
    with pytest.raises(ValidationError):
        Document(**fields)


def test_an_error_does_not_quote_the_text():
    with pytest.raises(ValidationError) as caught:
        Document(content=["a secret"], source="x")
    assert "secret" not in str(caught.value)


def test_nul_and_lone_surrogates_are_replaced_one_for_one_in_every_field():
    document = Document(id="i\x00", content="a\x00b\ud800c😀", source="f\x00.md", metadata={"k\x00": "v\udfff"})
    assert document.content == "a\ufffdb\ufffdc😀"
    assert (document.id, document.source, document.metadata) == ("i\ufffd", "f\ufffd.md", {"k\ufffd": "v\ufffd"})


def test_metadata_is_copied_and_keeps_its_types():
    tags = ["a"]
    document = Document(
        content="x", metadata={"tags": tags, "when": date(2024, 5, 1), "n": np.int64(3), "d": Decimal("1.0")}
    )
    tags.append("b")
    assert document.metadata == {"tags": ["a"], "when": date(2024, 5, 1), "n": 3, "d": Decimal("1.0")}
    assert type(document.metadata["n"]) is int


def test_metadata_that_cannot_be_kept_is_refused_when_the_document_is_made():
    with pytest.raises(TypeError, match=r"metadata\['a'\]\['b'\] is of type set; accepted are None, bool"):
        Document(content="x", metadata={"a": {"b": {1, 2}}})
    with pytest.raises(ValidationError, match=r"metadata\['a'\] is an integer of more than 2048 bits"):
        Document(content="x", metadata={"a": 1 << 3000})


def test_documents_share_no_default():
    Document(content="x").metadata["k"] = 1
    assert Document(content="x").metadata == {}


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_values_survive_being_copied(duplicate):
    document = Document(id="i", content="x", source="s", metadata={"when": date(2024, 5, 1)})
    assert duplicate(document) == document
    assert duplicate(result(also_in=["a.md"])) == result(also_in=["a.md"])


def test_scores_are_plain_floats_whatever_came():
    found = result(score=np.float32(0.5), vector_score=np.float64(0.25), keyword_score=np.float32(3))
    for score in (found.score, found.vector_score, found.keyword_score):
        assert type(score) is float
    assert json.loads(json.dumps(found.model_dump()))["score"] == 0.5


def test_a_score_of_zero_is_not_a_missing_one():
    assert result(score=0.0, vector_score=0.0).model_dump()["vector_score"] == 0.0
    assert result().vector_score is None


@pytest.mark.parametrize("field", ["score", "vector_score", "keyword_score"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_is_finite(field, value):
    with pytest.raises(ValidationError, match="finite number"):
        result(**{field: value})


def test_a_score_type_is_one_of_four():
    with pytest.raises(ValidationError, match="'cosine', 'bm25', 'fused' or 'rerank'"):
        result(score_type="similarity")


def test_a_report_counts_chunks():
    report = AddReport(added=2, chunks=7, failed=[Failure(source="a.pdf", reason="encrypted")])
    assert int(report) == 7
    assert list(range(10))[report] == 7
    assert report.failed[0].source == "a.pdf"
    assert int(AddReport()) == 0


def test_equal_texts_have_equal_hashes_of_32_hex_digits():
    assert text_hash("café") == text_hash("café") != text_hash("cafe")
    assert len(text_hash("")) == 32
    # BLAKE2b-128 of "abc": python -c "import hashlib; print(hashlib.blake2b(b'abc', digest_size=16).hexdigest())"
    assert text_hash("abc") == "cf4ab791c62b8d2b2109c90275287816"


def test_clean_text_leaves_clean_text_alone():
    text = "plain, 日本語, 😀, \t\n"
    assert clean_text(text) == text
