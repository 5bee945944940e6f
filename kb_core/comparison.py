"""How two metadata values compare: what equals what, and what comes before what.

The rules are those that `kb_core.filters` documents: no comparison across types, numbers by value, dates as dates.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ])", re.ASCII)


def membership_test(operands: list[Any]) -> Callable[[Any], bool]:
    """Make the test whether a stored value equals one of the operands.

    Strings and dates are looked up in sets, so that a filter on thousands of ids costs no more than one on a single id.
    """
    strings = frozenset(operand for operand in operands if isinstance(operand, str))
    others = [operand for operand in operands if not isinstance(operand, str)]
    moments = frozenset(moment for moment in map(as_moment, operands) if moment is not None)
    # Two strings never compare as dates: a stored string is looked up among the operands that are dates themselves.
    date_moments = frozenset(moment for moment in map(as_moment, others) if moment is not None)

    def test(stored: Any) -> bool:
        if isinstance(stored, str):
            return stored in strings or (bool(date_moments) and as_moment(stored) in date_moments)
        if isinstance(stored, date):
            return as_moment(stored) in moments
        return any(equal(stored, operand) for operand in others)

    return test


def ordering_test(compare: Callable[[Any, Any], bool], operand: Any) -> Callable[[Any], bool]:
    """Make the test whether `compare(stored, operand)` holds, for operands that are numbers, strings or dates."""
    operand_moment = as_moment(operand)

    def test(stored: Any) -> bool:
        if isinstance(stored, str) and isinstance(operand, str):
            return compare(stored, operand)
        if isinstance(stored, date) or isinstance(operand, date):
            moment = as_moment(stored)
            return moment is not None and operand_moment is not None and compare(moment, operand_moment)
        pair = _as_numbers(stored, operand)
        return pair is not None and compare(*pair)

    return test


def equal(stored: Any, operand: Any) -> bool:
    """Tell whether two whole values are equal; symmetric."""
    if isinstance(stored, list) and isinstance(operand, list):
        return len(stored) == len(operand) and all(map(equal, stored, operand))
    if isinstance(stored, Mapping) and isinstance(operand, Mapping):
        return stored.keys() == operand.keys() and all(equal(stored[key], operand[key]) for key in stored)
    if isinstance(stored, date) or isinstance(operand, date):
        moment = as_moment(stored)
        return moment is not None and moment == as_moment(operand)
    if isinstance(stored, str) and isinstance(operand, str):
        return stored == operand
    pair = _as_numbers(stored, operand)
    if pair is not None:
        return bool(pair[0] == pair[1])
    return stored is operand and (stored is None or isinstance(stored, bool))


def as_moment(value: Any) -> datetime | None:
    """Read a date (midnight), a time (UTC where it has no zone) or an ISO 8601 string as an aware point in time.

    Returns:
        None for anything else, also for a string that has the form of a date and is none (`2024-13-01`).
    """
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return _parsed_moment(value) if isinstance(value, str) else None


@lru_cache(maxsize=4096)
def _parsed_moment(text: str) -> datetime | None:
    if not _ISO_DATE.match(text):
        return None
    try:
        return as_moment(datetime.fromisoformat(text))
    except ValueError:
        return None


def _as_numbers(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Give two numbers that compare by value, or None where one is no number or NaN.

    A Decimal beside a float is compared as a float, else a price stored as Decimal("0.1") would not equal 0.1.
    """
    for value in (left, right):
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value != value:
            return None
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left), right
    if isinstance(left, float) and isinstance(right, Decimal):
        return left, float(right)
    return left, right
