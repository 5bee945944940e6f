# ruff: noqa: DTZ001  # times without a zone are what is tested here
import enum
import json
import math
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_core.metadata import (
    clean_text,
    decode_metadata,
    encode_metadata,
    json_safe_metadata,
    normalise_metadata,
    normalise_value,
)


class Colour(str, enum.Enum):  # noqa: UP042  # the older kind, whose str() is "Colour.RED"
    RED = "red"


class Day(datetime):
    """Stands for the subclasses of datetime that libraries bring along."""


ZONES = st.none() | st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**600), 2**600)
    | st.floats()
    | st.text()
    | st.dates()
    | st.datetimes(timezones=ZONES)
    | st.decimals(allow_nan=False)
)
KEYS = st.text().map(clean_text) | st.sampled_from(["$kb", "v", "$eq"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
METADATA = st.dictionaries(KEYS, VALUES, max_size=4)


def is_same(left, right):
    """Equal in value and type all the way down, NaN included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, datetime):
        return left == right and left.utcoffset() == right.utcoffset()
    return str(left) == str(right)


@given(METADATA)
def test_whatever_is_accepted_comes_back_through_text_with_its_type(metadata):
    normal = normalise_metadata(metadata)
    assert is_same(decode_metadata(encode_metadata(normal)), normal)
    assert is_same(normalise_metadata(normal), normal)


@given(METADATA)
def test_the_json_safe_form_is_strict_json(metadata):
    safe = json_safe_metadata(normalise_metadata(metadata))
    assert json.loads(json.dumps(safe, allow_nan=False)) == safe


def test_lists_none_dicts_and_dates_are_metadata_like_any_other():
    metadata = {"tags": ["a", "b"], "x": None, "d": {"k": 1}, "when": date(2024, 5, 1)}
    assert normalise_metadata(metadata) == metadata
    assert decode_metadata(encode_metadata(metadata)) == metadata


def test_plain_json_stays_plain_in_the_text_so_that_a_database_can_look_into_it():
    assert encode_metadata({"lang": "日本", "page": 3, "tags": ["a"]}) == '{"lang":"日本","page":3,"tags":["a"]}'


@pytest.mark.parametrize(
    "own",
    [
        {"$kb": "date", "v": "2024-01-01"},
        {"a": {"$kb": "dict", "v": [["x", 1]]}},
        {"$kb": {"$kb": date(2024, 1, 1)}},
        {"text": 'says "$kb" in quotes'},
    ],
)
def test_a_dict_of_the_user_that_looks_like_our_own_mark_stays_a_dict(own):
    assert decode_metadata(encode_metadata(own)) == own


def test_nothing_is_shared_with_what_was_given():
    given_list = ["a"]
    normal = normalise_metadata({"tags": given_list, "d": {"k": given_list}})
    given_list.append("b")
    assert normal == {"tags": ["a"], "d": {"k": ["a"]}}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Colour.RED, "red"),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.longdouble(1.5), 1.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([0.5], dtype=np.longdouble), [0.5]),
        (np.datetime64("2024-05-01"), date(2024, 5, 1)),
        (np.datetime64("2024-05-01T12:00:00.5", "ns"), datetime(2024, 5, 1, 12, 0, 0, 500_000)),
        (np.datetime64("NaT"), None),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Day(2024, 5, 1), datetime(2024, 5, 1)),
        (
            datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
            datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_what_is_close_to_an_accepted_type_becomes_it(value, plain):
    normal = normalise_value(value, "x")
    assert normal == plain
    assert type(normal) is type(plain)


def test_nul_and_lone_surrogates_are_replaced_one_for_one_in_keys_and_values():
    assert normalise_metadata({"k\x00": ["a\x00b", "\ud800!"]}) == {"k\ufffd": ["a\ufffdb", "\ufffd!"]}


@pytest.mark.parametrize(
    ("metadata", "error", "place"),
    [
        ({"a": {1, 2}}, TypeError, r"metadata\['a'\] is of type set"),
        ({"a": {"b": [1, b"secret"]}}, TypeError, r"metadata\['a'\]\['b'\]\[1\] is of type bytes"),
        ({"a": object()}, TypeError, r"metadata\['a'\] is of type object"),
        ({"a": 1j}, TypeError, "of type complex"),
        ({"a": timedelta(1)}, TypeError, "of type timedelta"),
        ({"a": np.timedelta64(1, "ns")}, TypeError, "of type timedelta64"),
        ({"a": {1: 2}}, TypeError, r"metadata\['a'\] has a key of type int; keys must be str"),
        ([("a", 1)], TypeError, "metadata must be a mapping with str keys, got list"),
        (None, TypeError, "got NoneType"),
        ({"a": 2**2048}, ValueError, r"metadata\['a'\] is an integer of more than 2048 bits"),
        ({"k\x00": 1, "k\ufffd": 2}, ValueError, "two keys"),
    ],
)
def test_all_else_is_refused_by_place_and_type(metadata, error, place):
    with pytest.raises(error, match=place) as caught:
        normalise_metadata(metadata)
    assert "secret" not in str(caught.value)


def test_a_value_that_holds_itself_is_refused():
    loop = {}
    loop["self"] = loop
    with pytest.raises(ValueError, match="deeper than 64 levels, or holds itself"):
        normalise_metadata(loop)


def test_sixty_four_levels_are_accepted_and_one_more_is_not():
    value = 1
    for _ in range(63):
        value = [value]
    assert decode_metadata(encode_metadata(normalise_metadata({"a": value}))) == {"a": value}
    with pytest.raises(ValueError, match="deeper than 64"):
        normalise_metadata({"a": [value]})


def test_a_small_object_that_unfolds_into_millions_of_values_is_refused_soon():
    value = [1]
    for _ in range(40):
        value = [value, value]
    with pytest.raises(ValueError, match="more than 100,000 values"):
        normalise_metadata({"a": value})


def test_a_signalling_nan_does_not_survive_to_raise_later():
    assert normalise_metadata({"a": Decimal("sNaN")})["a"].is_qnan()


def test_json_safe_values_keep_what_json_can_say():
    metadata = {
        "when": datetime(2024, 5, 1, 12, tzinfo=UTC),
        "day": date(2024, 5, 1),
        "price": Decimal("19.90"),
        "nan": math.nan,
        "big": 2**63,
        "most": 2**63 - 1,
        "deep": [{"inf": -math.inf}],
        "by hand": np.float32(0.5),
    }
    assert json_safe_metadata(metadata) == {
        "when": "2024-05-01T12:00:00+00:00",
        "day": "2024-05-01",
        "price": "19.90",
        "nan": None,
        "big": "9223372036854775808",
        "most": 9223372036854775807,
        "deep": [{"inf": None}],
        "by hand": 0.5,
    }
