"""OpenTelemetry spans around a tool call: `tool.search_<name>`, and in it `retrieval`.

Attribute names are those of OpenTelemetry's semantic conventions for generative AI where these have one (`gen_ai.*` and
`error.type`; their status is Development, so they may yet change), else `kb.*`:

| attribute | on | value |
|---|---|---|
| `gen_ai.operation.name` | both | `execute_tool`, `retrieval` |
| `gen_ai.tool.name`, `gen_ai.tool.type` | tool | `search_<name>`, `datastore` |
| `gen_ai.data_source.id`, `gen_ai.retrieval.top_k` | retrieval | the name of the knowledge base, and `top_k` |
| `kb.name`, `kb.backend`, `kb.search_type`, `kb.top_k` | both | what was searched, and how |
| `kb.hit_count`, `kb.hit_ids` | both | how many chunks came back, and their ids in order |
| `error.type` | both | the class of an error; the status is ERROR |

What people ask and what documents say is recorded only when switched on, by `KB_TRACE_CONTENT=1` or in code:
`gen_ai.tool.call.arguments`, `gen_ai.tool.call.result`, `gen_ai.retrieval.query.text`, `gen_ai.retrieval.documents`,
and the messages and stacks of errors.

Only the API is used; while nobody in the process has imported it, it is not imported here either.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kb_core.documents import SearchResult

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

_SCOPE: Final = "kb_core"
_YES: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True)
class SearchTrace:
    """What the spans of a search tool say at every call.

    Attributes:
        tool_name: The name of the tool.
        kb_name: The name of the knowledge base.
        backend: What it runs on.
        search_type: The kind of search.
        content: Whether to record the query and texts; None: as the environment variable `KB_TRACE_CONTENT` says.
        provider: Where spans go; None: the provider that is set globally.
    """

    tool_name: str
    kb_name: str
    backend: str
    search_type: str
    content: bool | None = None
    provider: "TracerProvider | None" = None

    def tool(self, query: str, top_k: int) -> AbstractContextManager["Recorder"]:
        """Open the span of a tool call, and close it with the error that passes through, if one does."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.tool_name,
            "gen_ai.tool.type": "datastore",
        }
        content = {"gen_ai.tool.call.arguments": {"query": query, "top_k": top_k}}
        return self._span(f"tool.{self.tool_name}", top_k, attributes, content)

    def retrieval(self, query: str, top_k: int) -> AbstractContextManager["Recorder"]:
        """Open the span of a retrieval, as `tool` does."""
        attributes = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": self.kb_name,
            "gen_ai.retrieval.top_k": top_k,
        }
        return self._span("retrieval", top_k, attributes, {"gen_ai.retrieval.query.text": query})

    def _span(
        self, name: str, top_k: int, attributes: Mapping[str, Any], content: Mapping[str, Any]
    ) -> AbstractContextManager["Recorder"]:
        tracer = _tracer(self.provider)
        if tracer is None:
            return _UNTRACED
        described = {
            **attributes,
            "kb.name": self.kb_name,
            "kb.backend": self.backend,
            "kb.search_type": self.search_type,
            "kb.top_k": top_k,
        }
        return _recording(tracer, name, described, content, is_content_on=self._is_content_on())

    def _is_content_on(self) -> bool:
        return os.environ.get("KB_TRACE_CONTENT", "").lower() in _YES if self.content is None else self.content


class Recorder:
    """Writes to one span; to none where tracing is not set up or the span is not sampled."""

    def __init__(self, span: "Span | None", *, is_content_on: bool) -> None:
        self._span = span if span is not None and span.is_recording() else None
        self._is_content_on = is_content_on

    def hits(self, results: Sequence[SearchResult]) -> None:
        """Record how many chunks came back, and which."""
        if self._span is not None:
            self._span.set_attribute("kb.hit_count", len(results))
            self._span.set_attribute("kb.hit_ids", [result.chunk.id for result in results])

    def documents(self, results: Sequence[SearchResult]) -> None:
        """Record the hits, and their texts where that is switched on."""
        self.hits(results)
        if self._span is not None and self._is_content_on:
            found = [{"id": hit.chunk.id, "score": hit.score, "content": hit.chunk.content} for hit in results]
            self.content("gen_ai.retrieval.documents", found)

    def content(self, name: str, value: Any) -> None:
        """Record a value that holds a query or texts, where that is switched on; JSON if it is no string."""
        if self._span is not None and self._is_content_on:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self._span.set_attribute(name, text)

    def error(self, error: BaseException) -> None:
        """Record that the call failed, and by which class of error."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        kind = type(error).__name__
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR, kind))
        if self._is_content_on:
            self._span.record_exception(error)


_UNTRACED: Final = nullcontext(Recorder(None, is_content_on=False))


@contextmanager
def _recording(
    tracer: "Tracer", name: str, attributes: Mapping[str, Any], content: Mapping[str, Any], *, is_content_on: bool
) -> Iterator[Recorder]:
    # The SDK's own record of an exception holds its message and stack, and these may hold the query.
    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        recorder = Recorder(span, is_content_on=is_content_on)
        for key, value in content.items():
            recorder.content(key, value)
        try:
            yield recorder
        except BaseException as error:
            recorder.error(error)
            raise


def _tracer(provider: "TracerProvider | None") -> "Tracer | None":
    """Give a tracer of the provider, or of the global one; None where nobody has set one."""
    if provider is None:
        # Whoever sets a provider has imported the API, unless this variable makes the API load one.
        if "opentelemetry.trace" not in sys.modules and "OTEL_PYTHON_TRACER_PROVIDER" not in os.environ:
            return None
        from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

        provider = get_tracer_provider()
        if isinstance(provider, ProxyTracerProvider):
            return None
    return provider.get_tracer(_SCOPE)
