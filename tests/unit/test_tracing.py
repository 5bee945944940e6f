import json
import os
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from kb_core.documents import Chunk, SearchResult
from kb_core.errors import StoreError
from kb_core.tracing import SearchTrace

QUERY = "who earns most?"
RESULTS = [
    SearchResult(
        chunk=Chunk(id=f"c{rank}", document_id="d", content=f"pay {rank}"), score=1 - rank / 4, score_type="bm25"
    )
    for rank in range(2)
]


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


def trace_of(provider, **options):
    return SearchTrace("search_docs", "docs", "LocalKB", "hybrid", provider=provider, **options)


def call(trace, error=None):
    with trace.tool(QUERY, 2) as tool:
        with trace.retrieval(QUERY, 2) as retrieval:
            if error is not None:
                raise error
            retrieval.documents(RESULTS)
        tool.hits(RESULTS)
        tool.content("gen_ai.tool.call.result", "[Score: 1.000] pay 0")


def everything_in(spans):
    return "".join(span.to_json() for span in spans)


def test_a_call_is_a_tool_span_with_a_retrieval_in_it(provider, exporter):
    call(trace_of(provider))
    retrieval, tool = exporter.get_finished_spans()
    assert (tool.name, retrieval.name) == ("tool.search_docs", "retrieval")
    assert tool.parent is None
    assert retrieval.parent.span_id == tool.context.span_id
    assert tool.instrumentation_scope.name == "kb_core"
    searched = {
        "kb.name": "docs",
        "kb.backend": "LocalKB",
        "kb.search_type": "hybrid",
        "kb.top_k": 2,
        "kb.hit_count": 2,
        "kb.hit_ids": ("c0", "c1"),
    }
    assert dict(tool.attributes) == {
        **searched,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_docs",
        "gen_ai.tool.type": "datastore",
    }
    assert dict(retrieval.attributes) == {
        **searched,
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "docs",
        "gen_ai.retrieval.top_k": 2,
    }
    assert tool.status.status_code is StatusCode.UNSET


def test_the_query_and_the_texts_are_left_out(provider, exporter):
    call(trace_of(provider))
    with pytest.raises(StoreError):
        call(trace_of(provider), StoreError(f"cannot search for {QUERY}"))
    written = everything_in(exporter.get_finished_spans())
    assert QUERY not in written
    assert "pay" not in written


@pytest.mark.parametrize(
    ("option", "variable", "is_on"),
    [
        (True, None, True),
        (True, "0", True),
        (False, "1", False),
        (None, "1", True),
        (None, "TRUE", True),
        (None, "0", False),
        (None, "", False),
        (None, None, False),
    ],
)
def test_content_is_switched_on_in_code_or_by_the_environment(option, variable, is_on, provider, exporter, monkeypatch):
    monkeypatch.delenv("KB_TRACE_CONTENT", raising=False)
    if variable is not None:
        monkeypatch.setenv("KB_TRACE_CONTENT", variable)
    call(trace_of(provider, content=option))
    assert (QUERY in everything_in(exporter.get_finished_spans())) is is_on


def test_switched_on_the_spans_hold_query_and_texts(provider, exporter):
    call(trace_of(provider, content=True))
    retrieval, tool = exporter.get_finished_spans()
    assert retrieval.attributes["gen_ai.retrieval.query.text"] == QUERY
    assert json.loads(retrieval.attributes["gen_ai.retrieval.documents"]) == [
        {"id": "c0", "score": 1.0, "content": "pay 0"},
        {"id": "c1", "score": 0.75, "content": "pay 1"},
    ]
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"query": QUERY, "top_k": 2}
    assert tool.attributes["gen_ai.tool.call.result"] == "[Score: 1.000] pay 0"


def test_an_error_marks_both_spans_by_its_class_and_goes_on(provider, exporter):
    error = StoreError("disk full")
    with pytest.raises(StoreError) as caught:
        call(trace_of(provider), error)
    assert caught.value is error
    for span in exporter.get_finished_spans():
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "StoreError"
        assert span.attributes["error.type"] == "StoreError"
        assert span.events == ()


def test_an_error_is_recorded_whole_where_content_is_on(provider, exporter):
    with pytest.raises(StoreError):
        call(trace_of(provider, content=True), StoreError("disk full"))
    for span in exporter.get_finished_spans():
        assert span.events[0].attributes["exception.message"] == "disk full"


def test_a_call_that_is_not_sampled_records_nothing(exporter):
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    unsampled.add_span_processor(SimpleSpanProcessor(exporter))
    call(trace_of(unsampled))
    assert exporter.get_finished_spans() == ()
    unsampled.shutdown()


def test_the_span_of_the_caller_is_the_parent(provider, exporter):
    with provider.get_tracer("app").start_as_current_span("agent") as agent:
        call(trace_of(provider))
    tool = exporter.get_finished_spans()[1]
    assert tool.parent.span_id == agent.get_span_context().span_id


def run(program, **variables):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, **variables}, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


TRACED = """
import sys
from kb_core.tracing import SearchTrace
trace = SearchTrace("search_docs", "docs", "LocalKB", "hybrid")
with trace.tool("q", 2) as tool, trace.retrieval("q", 2) as retrieval:
    retrieval.hits([])
    tool.content("gen_ai.tool.call.result", "x")
"""


def test_where_nobody_traces_the_api_is_not_even_imported():
    assert run(TRACED + "print([name for name in sys.modules if name.startswith('opentelemetry')])") == "[]"


def test_the_global_provider_is_found_also_when_it_is_set_later():
    program = f"""
{TRACED}
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
with trace.tool("q", 2):
    pass  # the API is there, but no provider
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
api.set_tracer_provider(provider)
with trace.tool("q", 2):
    pass
print([span.name for span in exporter.get_finished_spans()])
"""
    assert run(program) == "['tool.search_docs']"
