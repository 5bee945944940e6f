"""MetadataFilters: what they select is what LlamaIndex's own store selects, or they are refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters, utils

from kb_core import InvalidFilterError, LocalKB
from kb_core.embedders import HashingEmbedder
from kb_llamaindex import KBRetriever, kb_tool

QUERY = "tent"
METADATA: dict[str, dict[str, Any]] = {
    "a": {"lang": "en", "page": 1, "price": 9.5, "tags": ["dome", "light"]},
    "b": {"lang": "de", "page": 2, "price": 20, "tags": ["dome"]},
    "c": {"lang": "fr", "page": 3, "tags": [], "note": ""},
    "d": {"page": 4, "note": None},
    "e": {"lang": "en", "page": 5, "price": 20.0, "tags": ["tunnel", "light", "dome"], "note": "last one"},
}


@pytest.fixture(scope="module")
def tents() -> Iterator[LocalKB]:
    with LocalKB("tents", persist=False, embedder=HashingEmbedder()) as kb:
        for source, metadata in METADATA.items():
            kb.add_text(f"A tent called {source}.", source=source, metadata=metadata)
        yield kb


def one(key: str, operator: FilterOperator, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, operator=operator, value=value)


def group(*filters: Any, condition: FilterCondition | None = FilterCondition.AND) -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=condition)


def found(kb: LocalKB, filters: MetadataFilters, **options: Any) -> set[str]:
    return {hit.metadata["source"] for hit in KBRetriever(kb, 50, filters=filters, **options).retrieve(QUERY)}


ENGLISH = one("lang", FilterOperator.EQ, "en")
LATER = one("page", FilterOperator.GTE, 3)
CASES = [
    (group(ENGLISH), "ae"),
    (group(LATER), "cde"),
    (group(one("page", FilterOperator.EQ, 2)), "b"),
    (group(one("price", FilterOperator.EQ, 20)), "be"),
    (group(one("lang", FilterOperator.NE, "en")), "bcd"),
    (group(one("page", FilterOperator.GT, 3)), "de"),
    (group(one("price", FilterOperator.LT, 20.0)), "a"),
    (group(one("page", FilterOperator.LTE, 2)), "ab"),
    (group(one("lang", FilterOperator.IN, ["en", "fr"])), "ace"),
    (group(one("lang", FilterOperator.IN, [])), ""),
    (group(one("page", FilterOperator.IN, [1, 4])), "ad"),
    (group(one("lang", FilterOperator.NIN, ["en", "fr"])), "bd"),
    (group(one("tags", FilterOperator.CONTAINS, "light")), "ae"),
    (group(one("tags", FilterOperator.ANY, ["light", "tunnel"])), "ae"),
    (group(one("tags", FilterOperator.ALL, ["dome", "light"])), "ae"),
    (group(one("tags", FilterOperator.ALL, ["dome", "tunnel"])), "e"),
    (group(one("note", FilterOperator.IS_EMPTY, None)), "abcd"),
    (group(one("tags", FilterOperator.IS_EMPTY, None)), "cd"),
    (group(one("price", FilterOperator.IS_EMPTY, None)), "cd"),
    (group(), "abcde"),
    (group(ENGLISH, LATER), "e"),
    (group(ENGLISH, LATER, condition=None), "e"),
    (group(ENGLISH, LATER, condition=FilterCondition.OR), "acde"),
    (group(ENGLISH, LATER, condition=FilterCondition.NOT), "b"),
    (group(ENGLISH, condition=FilterCondition.NOT), "bcd"),
]


@pytest.mark.parametrize(("filters", "sources"), CASES, ids=str)
def test_a_filter_selects(tents: LocalKB, filters: MetadataFilters, sources: str) -> None:
    assert found(tents, filters) == set(sources)


@pytest.mark.parametrize(("filters", "sources"), CASES, ids=str)
def test_llamaindexs_own_store_selects_the_same(filters: MetadataFilters, sources: str) -> None:
    if not hasattr(utils, "build_metadata_filter_fn"):
        pytest.skip("this llama-index-core still takes a missing key for unequal to nothing")
    selects = utils.build_metadata_filter_fn(METADATA.__getitem__, filters)
    assert {source for source in METADATA if selects(source)} == set(sources)


def test_groups_may_be_nested() -> None:
    with LocalKB("nested", persist=False, embedder=HashingEmbedder()) as kb:
        for source, metadata in METADATA.items():
            kb.add_text(f"A tent called {source}.", source=source, metadata=metadata)
        not_english = group(ENGLISH, condition=FilterCondition.NOT)
        either = group(one("page", FilterOperator.EQ, 1), group(not_english, LATER), condition=FilterCondition.OR)
        assert found(kb, either) == {"a", "c", "d"}  # page 1, or not English and from page 3 on


def test_a_date_compares_as_a_date(kb: LocalKB) -> None:
    filters = group(one("since", FilterOperator.LT, "2025-01-03"))
    pages = {hit.metadata["page"] for hit in KBRetriever(kb, 50, filters=filters).retrieve("return")}
    assert pages == {1, 2}


def test_where_and_filters_must_both_hold(tents: LocalKB) -> None:
    assert found(tents, group(ENGLISH), where={"page": {"$gte": 2}}) == {"e"}


def test_they_bind_the_tool_too(tents: LocalKB) -> None:
    output = kb_tool(tents, filters=group(ENGLISH), where={"page": {"$lt": 5}}).call(QUERY)
    assert [hit["source"] for hit in output.raw_output] == ["a"]


@pytest.mark.parametrize("operator", [FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE])
def test_what_the_dialect_cannot_say_is_refused_by_name(kb: LocalKB, operator: FilterOperator) -> None:
    filters = group(ENGLISH, group(one("title", operator, "tent")))
    with pytest.raises(InvalidFilterError, match=rf"{operator.value}.*title.*it can by ==, !=, >"):
        KBRetriever(kb, filters=filters)
    with pytest.raises(InvalidFilterError, match="title"):
        kb_tool(kb, filters=filters)


@pytest.mark.parametrize(
    "wrong",
    [
        one("tags", FilterOperator.IN, "light"),
        one("tags", FilterOperator.ANY, "light"),
        one("tags", FilterOperator.ALL, "light"),
        one("tags", FilterOperator.ALL, []),
        one("page", FilterOperator.GT, None),
        one("page", FilterOperator.LT, ["1"]),
        one("$or", FilterOperator.EQ, "x"),
    ],
    ids=str,
)
def test_an_operand_that_does_not_fit_is_refused_when_the_retriever_is_made(kb: LocalKB, wrong: MetadataFilter) -> None:
    with pytest.raises(InvalidFilterError):
        KBRetriever(kb, filters=group(wrong))


def test_groups_nested_too_deep_are_refused(kb: LocalKB) -> None:
    filters = group(ENGLISH)
    for _ in range(2000):
        filters = MetadataFilters.model_construct(filters=[filters], condition=FilterCondition.AND)
    with pytest.raises(InvalidFilterError, match="32 levels"):
        KBRetriever(kb, filters=filters)


@pytest.mark.parametrize("given", [{"lang": "en"}, [ENGLISH], ENGLISH])
def test_anything_but_metadata_filters_is_a_type_error_that_names_where(kb: LocalKB, given: Any) -> None:
    with pytest.raises(TypeError, match=r"must be MetadataFilters, got .* `where`"):
        KBRetriever(kb, filters=given)
