"""LlamaIndex's metadata filters in the dialect of `kb_core.filters`."""

from collections.abc import Mapping
from typing import Any, Final

from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from kb_core.errors import InvalidFilterError
from kb_core.filters import MAX_DEPTH

_OPERATORS: Final = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    # Where the metadata holds a list, the dialect asks whether an element satisfies the comparison.
    FilterOperator.CONTAINS: "$eq",
    FilterOperator.ANY: "$in",
}


def bound_filter(where: Mapping[str, Any] | None, filters: MetadataFilters | None) -> Mapping[str, Any] | None:
    """Give one filter that holds where both hold; None where neither is given.

    Raises:
        InvalidFilterError: `filters` has what the dialect cannot say: an operator that looks inside a text.
        TypeError: `filters` are no `MetadataFilters`.
    """
    if filters is None:
        return where
    if not isinstance(filters, MetadataFilters):
        raise TypeError(
            f"filters must be MetadataFilters, got {type(filters).__name__}; a filter of kb-core is `where`"
        )
    translated = _translated(filters, depth=1)
    return translated if where is None else {"$and": [where, translated]}


def _translated(filters: MetadataFilters, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise InvalidFilterError(f"a filter may be nested {MAX_DEPTH} levels deep at most")
    parts = [
        _translated(part, depth + 1) if isinstance(part, MetadataFilters) else _condition(part)
        for part in filters.filters
    ]
    if not parts:  # LlamaIndex's own stores take an empty group for no filter, whatever its condition
        return {}
    match filters.condition:
        case None | FilterCondition.AND:
            return {"$and": parts}
        case FilterCondition.OR:
            return {"$or": parts}
        case FilterCondition.NOT:  # none of them, as in LlamaIndex's own stores
            return {"$not": {"$or": parts}}
    raise InvalidFilterError(f"filters cannot be combined by {filters.condition!r}; use and, or, not")


def _condition(part: MetadataFilter) -> dict[str, Any]:
    if part.operator in _OPERATORS:
        return {part.key: {_OPERATORS[part.operator]: part.value}}
    if part.operator == FilterOperator.ALL:
        if not isinstance(part.value, list) or not part.value:
            raise InvalidFilterError(f"the operand of all for {part.key!r:.60} must be a list of one value or more")
        return {"$and": [{part.key: {"$eq": value}} for value in part.value]}
    if part.operator == FilterOperator.IS_EMPTY:
        return {"$or": [{part.key: {"$exists": False}}, {part.key: {"$in": [None, "", []]}}]}
    known = ", ".join(operator.value for operator in (*_OPERATORS, FilterOperator.ALL, FilterOperator.IS_EMPTY))
    raise InvalidFilterError(
        f"a knowledge base cannot filter by {part.operator.value!r} for {part.key!r:.60}; it can by {known}"
    )
