# ruff: noqa: DTZ001, DTZ901, S301  # times without a zone are tested here, and only our own pickles are read
import copy
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_core.errors import InvalidFilterError, KBError
from kb_core.filters import And, Comparison, Not, Or, parse_filter
from kb_core.metadata import normalise_metadata

PLUS_TWO = timezone(timedelta(hours=2))


def matches(where, metadata):
    return parse_filter(where).matches(metadata)


# What is equal, and what is not.


@pytest.mark.parametrize(
    ("stored", "operand"),
    [
        ("en", "en"),
        (3, 3.0),
        (3, Decimal(3)),
        (Decimal("0.1"), 0.1),
        (True, True),
        (None, None),
        ("", ""),
        (0, -0.0),
        (["a", "b"], ["a", "b"]),
        (["a", "b"], "a"),
        ([1, [2]], [1, [2.0]]),
        ({"k": 1}, {"k": 1.0}),
        ([None], None),
        (date(2024, 5, 1), "2024-05-01"),
        ("2024-05-01", date(2024, 5, 1)),
        (date(2024, 5, 1), datetime(2024, 5, 1)),
        (datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 14, tzinfo=PLUS_TWO)),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00Z"),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01 14:00:00+02:00"),
        ([date(2024, 5, 1)], "2024-05-01"),
        (3, np.int64(3)),
        ("a\ufffdb", "a\x00b"),
    ],
    ids=repr,
)
def test_these_are_equal(stored, operand):
    for where in ({"k": operand}, {"k": {"$eq": operand}}, {"k": {"$in": [operand]}}):
        assert matches(where, {"k": stored})
    assert not matches({"k": {"$ne": operand}}, {"k": stored})
    assert not matches({"k": {"$nin": ["x", operand]}}, {"k": stored})


@pytest.mark.parametrize(
    ("stored", "operand"),
    [
        ("1", 1),
        (1, "1"),
        (True, 1),
        (1, True),
        (0, False),
        (False, 0.0),
        (None, False),
        (None, 0),
        (None, ""),
        ("None", None),
        (float("nan"), float("nan")),
        (Decimal("NaN"), Decimal("NaN")),
        (["a", "b"], ["b", "a"]),
        (["a", "b"], ["a"]),
        ("a", ["a"]),
        ([["a"]], "a"),
        ({"k": 1}, {"k": True}),
        ({"k": 1}, {"k": 1, "l": None}),
        ("2024-05-01", "2024-05-01T00:00:00"),  # two strings are strings
        (date(2024, 5, 1), "1 May 2024"),
        (date(2024, 5, 1), 20240501),
        ("2024-13-45", date(2024, 5, 1)),
        ("20240501", date(2024, 5, 1)),
        (2**53 + 1, float(2**53)),
        ("café", "cafe\u0301"),
    ],
    ids=repr,
)
def test_these_are_not_equal(stored, operand):
    assert not matches({"k": {"$eq": operand}}, {"k": stored})
    assert not matches({"k": {"$in": [operand]}}, {"k": stored})
    assert matches({"k": {"$ne": operand}}, {"k": stored})
    assert matches({"k": {"$nin": [operand]}}, {"k": stored})


def test_unequal_to_no_is_everything_else_under_the_key_and_everything_without_the_key():
    rows = [{"chunk": "yes"}, {"chunk": "no"}, {"chunk": 0}, {"other": 1}]
    found = [row for row in rows if matches({"chunk": {"$ne": "no"}}, row)]
    assert found == [{"chunk": "yes"}, {"chunk": 0}, {"other": 1}]


# A key that is not there, and one that holds None.


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"$ne": "news"}, True),
        ({"$nin": ["news"]}, True),
        ({"$nin": []}, True),
        ({"$exists": False}, True),
        ({"$not": {"$gt": 3}}, True),
        ({"$ne": None}, True),
        ({"$eq": "news"}, False),
        ({"$eq": None}, False),
        ({"$in": ["news", None]}, False),
        ({"$gt": 3}, False),
        ({"$gte": 3}, False),
        ({"$lt": 3}, False),
        ({"$lte": ""}, False),
        ({"$exists": True}, False),
    ],
)
def test_a_missing_key_fails_all_but_the_negations(condition, expected):
    assert matches({"category": condition}, {"other": 1}) is expected


def test_none_is_a_value_and_its_key_exists():
    assert matches({"k": None}, {"k": None})
    assert matches({"k": {"$exists": True}}, {"k": None})
    assert not matches({"k": {"$gte": 0}}, {"k": None})
    assert matches({"k": {"$ne": 3}}, {"k": None})


# Order.


@pytest.mark.parametrize(
    ("stored", "condition", "expected"),
    [
        (3, {"$gt": 2.5}, True),
        (3, {"$gt": 3}, False),
        (3, {"$gte": Decimal(3)}, True),
        (Decimal("2.5"), {"$lt": 2.6}, True),
        ("3", {"$gt": 2}, False),
        (3, {"$lt": "4"}, False),
        (True, {"$gt": 0}, False),
        ("b", {"$gt": "a", "$lt": "c"}, True),
        ("Z", {"$lt": "a"}, True),
        (float("nan"), {"$gte": 0}, False),
        (Decimal("NaN"), {"$lte": 0}, False),
        (float("inf"), {"$gt": 10**400}, True),
        (date(2024, 5, 2), {"$gt": date(2024, 5, 1)}, True),
        (date(2024, 5, 2), {"$gt": "2024-05-01"}, True),
        ("2024-05-02", {"$gt": date(2024, 5, 1)}, True),
        ("not a date", {"$gt": date(2024, 5, 1)}, False),
        (date(2024, 5, 2), {"$gt": "not a date"}, False),
        (datetime(2024, 5, 1, 0, 1), {"$lte": date(2024, 5, 1)}, False),
        (datetime(2024, 5, 1, 1, tzinfo=PLUS_TWO), {"$lt": date(2024, 5, 1)}, True),
        (5, {"$gt": date(2024, 5, 1)}, False),
        ([1, 9], {"$gt": 3, "$lt": 5}, True),  # 9 > 3 and 1 < 5: each condition may be met by another element
        ([], {"$gt": 3}, False),
        ({"a": 9}, {"$gt": 3}, False),
    ],
)
def test_order_is_within_one_kind(stored, condition, expected):
    assert matches({"k": condition}, {"k": stored}) is expected


# Lists.


def test_one_element_of_a_stored_list_is_enough_and_a_negation_wants_none():
    row = {"tags": ["a", "b"]}
    assert matches({"tags": "a"}, row)
    assert matches({"tags": {"$in": ["z", "b"]}}, row)
    assert not matches({"tags": {"$ne": "a"}}, row)
    assert not matches({"tags": {"$nin": ["z", "b"]}}, row)
    assert matches({"$and": [{"tags": "a"}, {"tags": "b"}]}, row)


def test_membership_in_many_ids_needs_no_scan():
    ids = [f"id-{number}" for number in range(50_000)]
    found = parse_filter({"id": {"$in": ids}})
    assert [row for row in range(50_500, 49_000, -500) if found.matches({"id": f"id-{row}"})] == [49_500]


def test_the_empty_list_holds_nothing():
    assert not matches({"k": {"$in": []}}, {"k": 1})
    assert matches({"k": {"$nin": []}}, {"k": 1})


# Structure.


def test_keys_are_literal():
    row = {"a.b": 1, "a": {"b": 2}, "it's": 3, '"; DROP TABLE': 4, "": 5}
    for key, value in row.items():
        assert matches({key: {"$eq": value}}, row)
    assert not matches({"a.b": 2}, row)


def test_several_keys_and_several_conditions_must_all_hold():
    where = {"lang": "en", "year": {"$gte": 2020, "$lt": 2024}}
    assert matches(where, {"lang": "en", "year": 2023})
    assert not matches(where, {"lang": "en", "year": 2024})
    assert not matches(where, {"lang": "de", "year": 2023})


def test_the_connectives_nest():
    where = {"$or": [{"topic": {"$in": ["tax", "law"]}}, {"$not": {"draft": True}}]}
    assert matches(where, {"topic": "tax", "draft": True})
    assert matches(where, {"draft": False})
    assert matches(where, {})
    assert not matches(where, {"draft": True})


def test_the_empty_filter_matches_everything():
    assert matches({}, {})
    assert matches({}, {"k": 1})
    assert matches({"$and": [{}]}, {})
    assert not matches({"$not": {}}, {})


def test_the_tree_can_be_walked_by_an_engine():
    assert parse_filter({"a": 1, "b": {"$ne": 2}}) == And((Comparison("a", "$eq", 1), Not(Comparison("b", "$eq", 2))))
    assert parse_filter({"$or": [{"a": {"$nin": ("x",)}}, {"b": {"$lt": 3}}]}) == Or(
        (Not(Comparison("a", "$in", ["x"])), Comparison("b", "$lt", 3))
    )


def test_filters_that_mean_different_things_are_different_keys():
    filters = [parse_filter({"k": value}) for value in (1, True, "1", 1.5, date(2024, 1, 1), "2024-01-01", None, [1])]
    assert len(set(filters)) == len(filters)
    assert parse_filter({"k": 1}) == parse_filter({"k": {"$eq": 1}})
    assert hash(parse_filter({"k": {"$ne": 1}})) == hash(parse_filter({"k": {"$not": {"$eq": 1}}}))
    assert parse_filter({"k": 1}) != {"k": 1}


def test_a_filter_does_not_change_with_what_it_was_made_of():
    operand = ["a"]
    made = parse_filter({"k": {"$in": operand}})
    operand.append("b")
    made.to_dict()["k"]["$in"].append("c")
    assert made.to_dict() == {"k": {"$in": ["a"]}}


def test_a_filter_can_be_copied_and_pickled_before_use():
    made = parse_filter({"k": {"$in": ["a", date(2024, 1, 1)]}})
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


# Refusals.


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (None, "must be a mapping"),
        ([], "must be a mapping"),
        ("lang = 'en'", "must be a mapping"),
        ({1: 2}, "keys of a filter must be str, got 1"),
        ({"a": {"$gte ": 1}}, "unknown operator"),
        ({"a": {"$GTE": 1}}, r"unknown operator '\$GTE'; did you mean \$gte"),
        ({"a": {"$regex": "x"}}, r"known here: \$eq, \$ne, \$in, \$nin, \$gt, \$gte, \$lt, \$lte, \$exists, \$not"),
        ({"$nor": [{}]}, r"did you mean \$or\? known here: \$and, \$or, \$not"),
        ({"$eq": 1}, r"\$eq belongs under a key"),
        ({"a": {"$or": [{"b": 1}]}}, r"\$or belongs around whole filters"),
        ({"$and": []}, r"\$and takes a list of one filter or more"),
        ({"$or": {"a": 1}}, r"\$or takes a list of one filter or more, got dict"),
        ({"$or": [1]}, "must be a mapping"),
        ({"$not": 3}, "must be a mapping"),
        ({"a": {"$not": 3}}, r"\$not takes conditions"),
        ({"a": {"$not": {}}}, "'a' has no condition"),
        ({"a": {}}, "'a' has no condition"),
        ({"a": {"$gt": 1, "b": 2}}, "'a' mixes operators with the plain key 'b'"),
        ({"a": {"$in": "abc"}}, r"operand of \$in for 'a' must be a list, got 'abc'"),
        ({"a": {"$nin": 3}}, r"operand of \$nin for 'a' must be a list, got 3"),
        ({"a": {"$in": {"b": 1}}}, "must be a list, got dict"),
        ({"a": {"$exists": 1}}, "must be True or False, got 1"),
        ({"a": {"$gt": None}}, "must be a number, a string or a date, got None"),
        ({"a": {"$lt": [1]}}, "must be a number, a string or a date, got list"),
        ({"a": {"$lte": True}}, "must be a number, a string or a date, got True"),
        ({"a": {1, 2}}, "of type set"),
        ({"a": b"x"}, "of type bytes"),
        ({"a": {1: 2}}, "key of type int"),
    ],
)
def test_what_is_not_in_the_dialect_is_refused(where, message):
    with pytest.raises(InvalidFilterError, match=message):
        parse_filter(where)


def test_the_refusal_is_an_expected_error_and_a_value_error():
    assert issubclass(InvalidFilterError, KBError)
    assert issubclass(InvalidFilterError, ValueError)


def nested(levels):
    where = {"k": 1}
    for _ in range(levels):
        where = {"$not": where}
    return where


def test_depth_is_bounded():
    assert parse_filter(nested(30)).matches({"k": 1})
    for levels in (32, 5_000):
        with pytest.raises(InvalidFilterError, match="32 levels"):
            parse_filter(nested(levels))
    loop = {}
    loop["$and"] = [loop]
    with pytest.raises(InvalidFilterError, match="32 levels"):
        parse_filter(loop)


def test_size_is_bounded():
    where = {"k": 1}
    for _ in range(20):
        where = {"$or": [where, where]}
    with pytest.raises(InvalidFilterError, match="10,000 conditions"):
        parse_filter(where)


# Laws.

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["", "a", "b", "1", "2024-05-01", "2024-05-01T12:00:00+02:00", "2024-99-99"])
    | st.dates(date(2024, 5, 1), date(2024, 5, 2))
    | st.sampled_from([datetime(2024, 5, 1), datetime(2024, 5, 1, 2, tzinfo=PLUS_TWO), datetime.max, datetime.min])
    | st.decimals(-3, 3, places=1)
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2)
ROWS = st.dictionaries(st.sampled_from("kl"), VALUES).map(normalise_metadata)
ORDERED = SCALARS.filter(lambda value: value is not None and not isinstance(value, bool))
CONDITIONS = st.one_of(
    VALUES.map(lambda value: {"$eq": value}),
    st.lists(VALUES, max_size=3).map(lambda values: {"$in": values}),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ORDERED).map(lambda pair: {pair[0]: pair[1]}),
    st.booleans().map(lambda value: {"$exists": value}),
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from("kl"), CONDITIONS, max_size=2),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts})
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts})
        | inner.map(lambda part: {"$not": part})
    ),
    max_leaves=6,
)


@given(VALUES, ROWS)
def test_unequal_is_the_exact_opposite_of_equal(value, row):
    assert matches({"k": {"$ne": value}}, row) is not matches({"k": {"$eq": value}}, row)


@given(st.lists(VALUES, max_size=3), ROWS)
def test_not_in_is_the_exact_opposite_of_in_and_in_is_one_of_many_equals(values, row):
    is_in = matches({"k": {"$in": values}}, row)
    assert matches({"k": {"$nin": values}}, row) is not is_in
    assert is_in is any(matches({"k": {"$eq": value}}, row) for value in values)


@given(FILTERS, FILTERS, ROWS)
def test_de_morgan(left, right, row):
    either = matches({"$or": [left, right]}, row)
    assert matches({"$not": {"$and": [{"$not": left}, {"$not": right}]}}, row) is either


@given(ORDERED, ROWS)
def test_at_least_is_above_or_equal(value, row):
    strings = isinstance(value, str)
    either = matches({"$or": [{"k": {"$gt": value}}, {"k": value}]}, row)
    assert matches({"k": {"$gte": value}}, row) is either
    if not strings and not isinstance(row.get("k"), list):
        assert not (matches({"k": {"$gt": value}}, row) and matches({"k": {"$lte": value}}, row))


@given(FILTERS, ROWS)
def test_the_canonical_form_is_the_same_filter(where, row):
    made = parse_filter(where)
    again = parse_filter(made.to_dict())
    assert again == made
    assert again.to_dict() == made.to_dict() or "nan" in made.canonical
    assert again.matches(row) is made.matches(row)


def test_the_canonical_form_of_the_deepest_filter_is_not_too_deep():
    where = {"k": {"$ne": 1, "$gt": 0}, "l": 1}
    made = None
    while True:
        try:
            made = parse_filter(where)
        except InvalidFilterError:
            break
        where = {"$not": where}
    assert parse_filter(made.to_dict()) == made


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$eq", "$in", "$not", "$and", "$or", "$exists", "$gt", "$what", "k", ""]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(JSON, ROWS)
def test_any_json_is_a_filter_or_refused(where, row):
    try:
        made = parse_filter(where)
    except InvalidFilterError:
        return
    assert made.matches(row) in {True, False}
