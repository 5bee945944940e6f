import asyncio
import copy
import json
import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kb_core.documents import Chunk, SearchResult
from kb_core.errors import InvalidFilterError, StoreError
from kb_core.filters import parse_filter
from kb_core.formatting import format_results
from kb_core.protocols import KnowledgeBase
from kb_core.tool import MAX_DESCRIPTION, KBTool

PASSAGES = {
    "Returns are accepted within 30 days.": {"source": "returns.md", "lang": "en", "page": 1},
    "Returns need the receipt.": {"source": "returns.md", "lang": "en", "page": 2},
    "Rücksendungen sind 30 Tage lang möglich.": {"source": "ruecksendung.md", "lang": "de"},
    "Delivery takes 3 days.": {"source": "delivery.md", "lang": "en", "tenant": "a"},
}


class WordKB:
    """A knowledge base that scores a passage by the share of the query's words that it holds."""

    def __init__(self, name="docs", description="The shop's policies."):
        self.name = name
        self.description = description
        self.is_closed = False

    def search(self, query, top_k=5, *, search_type=None, alpha=None, where=None, min_score=None):
        if self.is_closed:
            raise StoreError("the knowledge base is closed")
        words = query.lower().split()
        keep = parse_filter(where or {})
        found = []
        for rank, (text, metadata) in enumerate(PASSAGES.items()):
            score = sum(word in text.lower() for word in words) / max(len(words), 1)
            if score > (min_score or 0) and keep.matches(metadata):
                chunk = Chunk(id=f"c{rank}", document_id=metadata["source"], content=text, metadata=dict(metadata))
                found.append(SearchResult(chunk=chunk, score=score, score_type="bm25", keyword_score=score))
        return sorted(found, key=lambda hit: (-hit.score, hit.chunk.id))[:top_k]

    async def asearch(self, query, top_k=5, *, search_type=None, alpha=None, where=None, min_score=None):
        return await asyncio.to_thread(
            self.search, query, top_k, search_type=search_type, alpha=alpha, where=where, min_score=min_score
        )

    def as_tool(self, **options):
        return KBTool(self, **options)

    def status(self):
        return {"chunks": len(PASSAGES)}

    def close(self):
        self.is_closed = True


@pytest.fixture
def kb():
    made = WordKB()
    assert isinstance(made, KnowledgeBase)
    return made


def ids(text):
    return [result.chunk.id for result in text.results]


# What a model is told.


def test_a_tool_says_what_it_is(kb):
    tool = kb.as_tool()
    assert (tool.name, tool.origin) == ("search_docs", "kb")
    assert tool.description == (
        'Search the knowledge base "docs". The shop\'s policies. '
        'Returns passages, best first, each as "[Score: 0.700] text".'
    )
    assert repr(tool) == "KBTool(name='search_docs', kb='docs')"


@pytest.mark.parametrize("name", ["Google Search", "産品手冊", "x" * 80])
def test_a_name_that_no_provider_takes_is_made_legal_and_stands_in_the_description(name):
    tool = WordKB(name).as_tool()
    assert re.fullmatch("search_[a-zA-Z0-9_-]{1,57}", tool.name)
    assert name in tool.description


def test_a_long_description_is_cut_and_an_empty_one_left_out():
    tool = WordKB("n" * 300, "word " * 1000).as_tool()
    assert len(tool.description) == MAX_DESCRIPTION
    assert tool.description.endswith('… Returns passages, best first, each as "[Score: 0.700] text".')
    assert '"docs". Returns' in WordKB(description=" ").as_tool().description


def test_the_schema_is_what_the_strict_modes_of_all_providers_take(kb):
    schema = kb.as_tool(top_k=4, max_top_k=9).parameters
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"]) == ["query", "top_k"]
    assert schema["properties"]["query"]["type"] == "string"
    assert schema["properties"]["top_k"]["type"] == ["integer", "null"]
    assert "1 to 9" in schema["properties"]["top_k"]["description"]
    assert "null for 4" in schema["properties"]["top_k"]["description"]
    for described in schema["properties"].values():
        assert set(described) == {"type", "description"}
    schema["properties"].clear()
    assert kb.as_tool().parameters["properties"]


def test_name_and_description_can_be_given(kb):
    tool = kb.as_tool(name="find_policy", description="Finds policies.")
    assert (tool.name, tool.description) == ("find_policy", "Finds policies.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "find policy"}, "the name of a tool must be 1 to 64 of a-z"),
        ({"name": ""}, "the name of a tool must be"),
        ({"description": "x" * 1025}, "1024 characters at most, got 1025"),
        ({"top_k": 0}, "top_k must be an int from 1 to max_top_k=20, got 0"),
        ({"top_k": 21}, "got 21"),
        ({"top_k": True}, "got True"),
        ({"top_k": "5"}, "got '5'"),
        ({"alpha": 2}, "alpha must be from 0 to 1"),
        ({"where": {"lang": {"$like": "e"}}}, r"unknown operator '\$like'"),
    ],
)
def test_a_wrong_option_is_refused_when_the_tool_is_made(kb, options, message):
    with pytest.raises(ValueError, match=message):
        kb.as_tool(**options)


# What it answers.


def test_a_call_gives_the_formatted_hits_and_remembers_them(kb):
    text = kb.as_tool().call("returns receipt")
    assert text == "[Score: 1.000] Returns need the receipt.\n\n[Score: 0.500] Returns are accepted within 30 days."
    assert text == format_results(kb.search("returns receipt"))
    assert text.results == kb.search("returns receipt")
    assert ids(copy.deepcopy(text)) == ["c1", "c0"]


async def test_the_async_call_gives_the_same(kb):
    tool = kb.as_tool(where={"lang": "en"})
    text = await tool.acall("returns 30 days", 2)
    assert text == tool.call("returns 30 days", 2)
    assert ids(text) == ids(tool.call("returns 30 days", 2))


async def test_many_async_calls_run_at_once(kb):
    tool = kb.as_tool()
    queries = ["returns", "receipt", "delivery", "nothing like it"] * 8
    assert await asyncio.gather(*map(tool.acall, queries)) == [tool.call(query) for query in queries]


@pytest.mark.parametrize("query", ["zebra", "", "   ", "\x00"])
def test_nothing_found_is_said_in_words(kb, query):
    text = kb.as_tool().call(query)
    assert text == "No results found."
    assert text.results == []


@pytest.mark.parametrize(
    ("top_k", "n_hits"), [(None, 2), (1, 1), (3, 3), (2.0, 2), (0, 1), (-5, 1), (4, 3), (10**6, 3), (1e300, 3)]
)
def test_top_k_is_kept_within_its_bounds(kb, top_k, n_hits):
    tool = kb.as_tool(top_k=2, max_top_k=3)
    assert len(tool.call("30 days receipt returns 3", top_k).results) == n_hits


@pytest.mark.parametrize("top_k", ["5", True, 2.5, [5], {}, float("nan"), float("inf"), "x" * 1000])
async def test_top_k_that_is_no_whole_number_is_refused(kb, top_k):
    with pytest.raises(ValueError, match="top_k must be a whole number from 1 to 20, or null, got") as caught:
        kb.as_tool().call("returns", top_k)
    assert len(str(caught.value)) < 120
    with pytest.raises(ValueError, match="top_k must be a whole number"):
        await kb.as_tool().acall("returns", top_k)


@pytest.mark.parametrize("query", [None, 3, ["returns"], {"query": "returns"}, b"returns"])
def test_a_query_that_is_no_string_is_refused(kb, query):
    with pytest.raises(ValueError, match=f"query must be a string, got {type(query).__name__}"):
        kb.as_tool().call(query)


def test_an_expected_error_reaches_the_caller(kb):
    kb.close()
    with pytest.raises(StoreError, match="is closed"):
        kb.as_tool().call("returns")


def test_the_model_sees_metadata_where_the_developer_says_so(kb):
    text = kb.as_tool(metadata_keys=["source", "page"]).call("receipt")
    assert text == "[Score: 1.000] Returns need the receipt.\n(source: returns.md, page: 2)"


# What the developer binds.


def test_a_bound_filter_and_threshold_hold_for_every_call(kb):
    assert ids(kb.as_tool(where={"lang": "de"}).call("30")) == ["c2"]
    assert ids(kb.as_tool(min_score=0.6).call("returns receipt")) == ["c1"]


def test_a_bound_filter_does_not_change_with_the_dict_it_came_from(kb):
    where = {"lang": {"$in": ["de"]}}
    tool = kb.as_tool(where=where)
    where["lang"]["$in"].append("en")
    assert ids(tool.call("30")) == ["c2"]


def test_a_scope_narrows_and_never_widens(kb):
    bound = kb.as_tool(where={"lang": "en"})
    assert ids(bound.call("days")) == ["c0", "c3"]
    assert ids(bound.scoped({"tenant": "a"}).call("days")) == ["c3"]
    assert ids(bound.scoped({"lang": "de"}).call("days")) == []
    assert ids(bound.scoped({"$or": [{"lang": "de"}, {"page": 1}]}).call("30")) == ["c0"]
    assert ids(bound.call("days")) == ["c0", "c3"]
    assert ids(kb.as_tool().scoped({"tenant": "a"}).scoped({}).call("days")) == ["c3"]


def test_a_scope_that_is_no_filter_is_refused(kb):
    with pytest.raises(InvalidFilterError):
        kb.as_tool().scoped({"tenant": {"$is": 1}})


def test_a_scope_that_is_not_known_does_not_open_everything(kb):
    with pytest.raises(TypeError, match="got None"):
        kb.as_tool().scoped(None)


# What a model sends.


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ({"query": "returns", "top_k": None}, {"query": "returns", "top_k": 5}),
        ({"query": "returns"}, {"query": "returns", "top_k": 5}),
        ('{"query": "returns", "top_k": 3.0}', {"query": "returns", "top_k": 3}),
        ('{"query": "a\\u0000b\\ud800", "top_k": 99}', {"query": "a\ufffdb\ufffd", "top_k": 20}),
    ],
)
def test_arguments_are_read_from_a_mapping_or_from_json(kb, arguments, parsed):
    tool = kb.as_tool()
    assert tool.parse_arguments(arguments) == parsed
    assert tool.call(**tool.parse_arguments(arguments)) == tool.call(**parsed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the arguments of search_docs must be a JSON object"),
        ("{", "must be a JSON object"),
        ("[" * 100_000, "must be a JSON object"),
        ('["returns"]', "must be a JSON object, got list"),
        ("null", "must be a JSON object, got NoneType"),
        ({}, "search_docs needs a query"),
        ({"top_k": 3}, "search_docs needs a query"),
        ({"query": "x", "k": 3, "filter": {}}, "search_docs takes query and top_k, got 'k', 'filter'"),
        ({"query": None}, "query must be a string, got NoneType"),
        ({"query": "x", "top_k": "many"}, "top_k must be a whole number from 1 to 20, or null, got 'many'"),
    ],
)
def test_arguments_that_are_wrong_are_refused_in_words_for_the_model(kb, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kb.as_tool().parse_arguments(arguments)


def test_an_unknown_argument_of_a_call_is_an_error(kb):
    with pytest.raises(TypeError, match="where"):
        kb.as_tool().call("returns", where={"lang": "de"})


# Traces.


async def test_every_call_is_traced_sync_and_async(kb):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tool = kb.as_tool(tracer_provider=provider, search_type="keyword", backend="words")
    tool.call("receipt")
    await tool.acall("receipt")
    kb.close()
    with pytest.raises(StoreError):
        await tool.acall("receipt")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["retrieval", "tool.search_docs"] * 3
    for retrieval, call in zip(spans[::2], spans[1::2], strict=True):
        assert retrieval.parent.span_id == call.context.span_id
    for span in spans[:4]:
        assert span.attributes["kb.hit_ids"] == ("c1",)
        assert span.attributes["kb.search_type"] == "keyword"
        assert span.attributes["kb.backend"] == "words"
    assert [span.status.description for span in spans[4:]] == ["StoreError", "StoreError"]
    assert "receipt" not in json.dumps([span.to_json() for span in spans])
    provider.shutdown()


async def test_a_call_that_is_cancelled_closes_its_spans(kb):
    async def never(*_, **__):
        await asyncio.Event().wait()

    kb.asearch = never
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(kb.as_tool(tracer_provider=provider).acall("receipt"), 0.01)
    assert [span.attributes["error.type"] for span in exporter.get_finished_spans()] == ["CancelledError"] * 2
    provider.shutdown()
