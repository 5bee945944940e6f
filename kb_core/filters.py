"""The filter dialect over metadata: parse, validate, match.

A filter is a mapping. Its keys are metadata keys, taken literally (a dot is a dot), and all must hold:

    {"lang": "en", "year": {"$gte": 2020, "$lt": 2024}}
    {"$or": [{"topic": {"$in": ["tax", "law"]}}, {"$not": {"draft": True}}]}

* `{"k": v}` is `{"k": {"$eq": v}}`. Equality is of whole values; there is none across types: True is not 1 and "1" is
  not 1. int, float and Decimal are all numbers. NaN equals nothing.
* `$ne`, `$nin` and `$not` are the exact opposites of `$eq`, `$in` and what they hold, so a missing key satisfies them;
  it fails every other comparison except `{"$exists": False}`. A key that holds None exists, and equals None.
* `$gt`, `$gte`, `$lt`, `$lte` order numbers, strings (by code point) and dates, each kind among itself.
* A date is midnight of that day, and a time without a zone is UTC. Where one side is a date and the other a string in
  ISO 8601 form (`2024-05-01`, `2024-05-01T12:00:00+02:00`), they compare as dates; two strings compare as strings.
* Where the metadata holds a list, one element that satisfies the comparison is enough, as in MongoDB, Elasticsearch and
  Qdrant; so `{"tags": {"$ne": "x"}}` says that no element is "x". A list as the operand of `$eq` equals a whole list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any, Final

from kb_core.comparison import membership_test, ordering_test
from kb_core.errors import InvalidFilterError
from kb_core.metadata import encode_metadata, normalise_value

MAX_DEPTH: Final = 32
MAX_NODES: Final = 10_000

_ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_COMPARISONS: Final = ("$eq", "$ne", "$in", "$nin", *_ORDERINGS, "$exists")
_OPPOSITES: Final = {"$ne": "$eq", "$nin": "$in"}
_ORDERED: Final = (int, float, Decimal, str, date)
_CONNECTIVES: Final = ("$and", "$or", "$not")


class Filter(ABC):
    """A condition on metadata: a `Comparison`, or an `And`, `Or` or `Not` of filters.

    Immutable, hashable, and equal to any filter with the same canonical form. An engine that filters by itself walks
    these four classes.
    """

    @abstractmethod
    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Tell whether metadata, as `normalise_metadata` leaves it, satisfies the filter."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Give the canonical form: `parse_filter(f.to_dict()) == f`. Values keep their types."""

    @cached_property
    def canonical(self) -> str:
        """The canonical form as text, for use as a cache key: 1, 1.0 and True are three different filters."""
        return encode_metadata(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)


@dataclass(frozen=True, eq=False)
class And(Filter):
    """All of the filters hold; of none, always."""

    filters: tuple[Filter, ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return all(part.matches(metadata) for part in self.filters)

    def to_dict(self) -> dict[str, Any]:
        return {"$and": [part.to_dict() for part in self.filters]} if self.filters else {}


@dataclass(frozen=True, eq=False)
class Or(Filter):
    """At least one of the filters holds."""

    filters: tuple[Filter, ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return any(part.matches(metadata) for part in self.filters)

    def to_dict(self) -> dict[str, Any]:
        return {"$or": [part.to_dict() for part in self.filters]}


@dataclass(frozen=True, eq=False)
class Not(Filter):
    """The filter does not hold. `$ne` and `$nin` are parsed into this."""

    filter: Filter

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        return not self.filter.matches(metadata)

    def to_dict(self) -> dict[str, Any]:
        return {"$not": self.filter.to_dict()}


@dataclass(frozen=True, eq=False)
class Comparison(Filter):
    """One metadata key against one operand.

    Attributes:
        key: The metadata key, literal.
        operator: `$eq`, `$in`, `$gt`, `$gte`, `$lt`, `$lte` or `$exists`.
        operand: A normalised value; a list for `$in`, a bool for `$exists`.
    """

    key: str
    operator: str
    operand: Any

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        if self.operator == "$exists":
            return (self.key in metadata) is self.operand
        if self.key not in metadata:
            return False
        stored = metadata[self.key]
        if self._test(stored):
            return True
        return isinstance(stored, list) and any(self._test(element) for element in stored)

    def to_dict(self) -> dict[str, Any]:
        return {self.key: {self.operator: deepcopy(self.operand)}}

    @cached_property
    def _test(self) -> Callable[[Any], bool]:
        if self.operator in _ORDERINGS:
            return ordering_test(_ORDERINGS[self.operator], self.operand)
        return membership_test(self.operand if self.operator == "$in" else [self.operand])


def parse_filter(where: Mapping[str, Any]) -> Filter:
    """Read a filter in the dialect of this module.

    Args:
        where: The filter; `{}` matches everything.

    Raises:
        InvalidFilterError: Not in the dialect, or beyond 32 levels or 10,000 conditions.
    """
    return _Parser().filter(where, depth=1)


class _Parser:
    """One walk over a filter that came from outside.

    `depth` is that of the node in the tree that is made, so the canonical form of a filter passes where the filter did.
    """

    def __init__(self) -> None:
        self._n_nodes = 0

    def filter(self, where: object, depth: int) -> Filter:
        if not isinstance(where, Mapping):
            raise InvalidFilterError(f'a filter must be a mapping like {{"lang": "en"}}, got {_shown(where)}')
        if len(where) == 1:
            return self._entry(*next(iter(where.items())), depth)
        self._count(depth)
        return And(tuple(self._entry(key, value, depth + 1) for key, value in where.items()))

    def _entry(self, key: object, value: object, depth: int) -> Filter:
        if not isinstance(key, str):
            raise InvalidFilterError(f"the keys of a filter must be str, got {_shown(key)}")
        if key == "$not":
            self._count(depth)
            return Not(self.filter(value, depth + 1))
        if key in _CONNECTIVES:
            return self._connective(key, value, depth)
        if key.startswith("$"):
            raise _unknown_operator(key)
        name: str = _normal(key, "a key")
        if isinstance(value, Mapping) and (not value or any(map(_is_operator, value))):
            return self._conditions(name, value, depth)
        return self._comparison(name, "$eq", value, depth)

    def _connective(self, operator: str, value: object, depth: int) -> Filter:
        if not isinstance(value, list | tuple) or not value:
            raise InvalidFilterError(f"{operator} takes a list of one filter or more, got {_shown(value)}")
        self._count(depth)
        parts = tuple(self.filter(part, depth + 1) for part in value)
        return And(parts) if operator == "$and" else Or(parts)

    def _conditions(self, key: str, conditions: Mapping[Any, Any], depth: int) -> Filter:
        if not conditions:
            raise InvalidFilterError(f'{_shown(key)} has no condition; write {{"$eq": {{}}}} for an empty mapping')
        for operator in conditions:
            if not _is_operator(operator):
                raise InvalidFilterError(f"{_shown(key)} mixes operators with the plain key {_shown(operator)}")
        if len(conditions) == 1:
            return self._condition(key, *next(iter(conditions.items())), depth)
        self._count(depth)
        return And(tuple(self._condition(key, name, operand, depth + 1) for name, operand in conditions.items()))

    def _condition(self, key: str, operator: str, operand: object, depth: int) -> Filter:
        if operator == "$not":
            if not isinstance(operand, Mapping):
                raise InvalidFilterError(f"$not takes conditions; write {{{_shown(key)}: {{'$ne': …}}}} for a value")
            self._count(depth)
            return Not(self._conditions(key, operand, depth + 1))
        if operator not in _COMPARISONS:
            raise _unknown_operator(operator, key)
        return self._comparison(key, operator, operand, depth)

    def _comparison(self, key: str, operator: str, operand: object, depth: int) -> Filter:
        self._count(depth)
        value = _operand(key, operator, operand)
        if operator not in _OPPOSITES:
            return Comparison(key, operator, value)
        self._count(depth + 1)
        return Not(Comparison(key, _OPPOSITES[operator], value))

    def _count(self, depth: int) -> None:
        self._n_nodes += 1
        if depth > MAX_DEPTH:
            raise InvalidFilterError(f"a filter may be nested {MAX_DEPTH} levels deep at most")
        if self._n_nodes > MAX_NODES:
            raise InvalidFilterError(f"a filter may hold {MAX_NODES:,} conditions at most")


def _operand(key: str, operator: str, operand: object) -> Any:
    is_list = operator in {"$in", "$nin"}
    place = f"the operand of {operator} for {_shown(key)}"
    if is_list and isinstance(operand, set | frozenset):
        operand = list(operand)
    value = _normal(operand, place)
    if is_list and not isinstance(value, list):
        raise InvalidFilterError(f"{place} must be a list, got {_shown(operand)}")
    if operator == "$exists" and not isinstance(value, bool):
        raise InvalidFilterError(f"{place} must be True or False, got {_shown(operand)}")
    if operator in _ORDERINGS and not (isinstance(value, _ORDERED) and not isinstance(value, bool)):
        raise InvalidFilterError(f"{place} must be a number, a string or a date, got {_shown(operand)}")
    return value


def _is_operator(name: object) -> bool:
    return isinstance(name, str) and name.startswith("$")


def _normal(value: object, place: str) -> Any:
    try:
        return normalise_value(value, place)
    except (TypeError, ValueError) as error:
        raise InvalidFilterError(str(error)) from error


def _unknown_operator(name: str, key: str | None = None) -> InvalidFilterError:
    known = _CONNECTIVES if key is None else (*_COMPARISONS, "$not")
    if key is None and name in _COMPARISONS:
        return InvalidFilterError(f'{name} belongs under a key: {{"<key>": {{"{name}": …}}}}')
    if key is not None and name in _CONNECTIVES:
        return InvalidFilterError(f'{name} belongs around whole filters: {{"{name}": [{{{_shown(key)}: …}}, …]}}')
    close = get_close_matches(f"${name.lstrip('$').lower()}", known, n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}? " if close else ""
    return InvalidFilterError(f"unknown operator {_shown(name)}; {hint}known here: {', '.join(known)}")


def _shown(value: object) -> str:
    """Name a value in a message: itself where it is short and plain, else its type."""
    if isinstance(value, str):
        return repr(value[:60])
    if value is None or isinstance(value, bool | float | date) or (isinstance(value, int) and abs(value) < 2**64):
        return repr(value)
    return type(value).__name__
