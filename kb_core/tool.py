"""The search of a knowledge base as a tool for a model, before any framework."""

import json
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final

from kb_core.documents import SearchResult
from kb_core.filters import parse_filter
from kb_core.formatting import SearchText, format_results, is_legal_tool_name, tool_name
from kb_core.fusion import check_alpha
from kb_core.metadata import clean_text
from kb_core.tracing import Recorder, SearchTrace

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from kb_core.protocols import KnowledgeBase

MAX_DESCRIPTION: Final = 1024
"""What OpenAI takes; LlamaIndex raises beyond it."""

_ARGUMENTS: Final = ("query", "top_k")


class KBTool:
    """A tool that a model calls with a query, and that answers with `[Score: 0.700] …` passages.

    Made by `kb.as_tool()`. What the developer binds here (the filter, the threshold) a model neither sees nor chooses.

    Attributes:
        name: `search_<name>`, made legal for every provider.
        description: For the model; holds the knowledge base's own name, 1,024 characters at most.
        origin: `"kb"`, to tell it from a user's other tools.
        max_top_k: What a larger `top_k` is cut to.
        search_options: What is passed to every search, and no model sees: filter, threshold, kind, weight.

    Args:
        kb: What is searched.
        name: In place of the derived name.
        description: In place of the derived description.
        top_k: How many passages, where the model does not say.
        max_top_k: How many at most.
        where: A filter that every search is bound to.
        min_score: Drop hits whose score is lower.
        search_type: As in `KnowledgeBase.search`.
        alpha: As in `KnowledgeBase.search`.
        metadata_keys: Metadata that the model sees below each passage, e.g. `("source", "page")`.
        backend: What the knowledge base runs on, for traces; its class where not given.
        trace_content: Whether traces hold the query and texts; None: as `KB_TRACE_CONTENT` says.
        tracer_provider: Where traces go; None: the OpenTelemetry provider that is set globally.

    Raises:
        ValueError: A name that a provider refuses, a description that is too long, a number that is out of range.
        InvalidFilterError: `where` is not in the dialect.
    """

    origin: Final = "kb"

    def __init__(
        self,
        kb: "KnowledgeBase",
        *,
        name: str | None = None,
        description: str | None = None,
        top_k: int = 5,
        max_top_k: int = 20,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        search_type: str | None = None,
        alpha: float | None = None,
        metadata_keys: Sequence[str] = (),
        backend: str | None = None,
        trace_content: bool | None = None,
        tracer_provider: "TracerProvider | None" = None,
    ) -> None:
        if type(top_k) is not int or not 1 <= top_k <= max_top_k:
            raise ValueError(f"top_k must be an int from 1 to max_top_k={max_top_k}, got {top_k!r}")
        self.kb = kb
        self.name = tool_name(kb.name) if name is None else _checked_name(name)
        self.description = _describe(kb) if description is None else _checked_description(description)
        self.max_top_k = max_top_k
        self._top_k = top_k
        self._metadata_keys = tuple(metadata_keys)
        self.search_options: dict[str, Any] = {
            "search_type": search_type,
            "alpha": None if alpha is None else check_alpha(alpha),
            "where": _checked_filter(where),
            "min_score": min_score,
        }
        backend = backend or type(kb).__name__
        self._trace = SearchTrace(self.name, kb.name, backend, search_type or "default", trace_content, tracer_provider)

    def __repr__(self) -> str:
        return f"KBTool(name={self.name!r}, kb={self.kb.name!r})"

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments as JSON schema, a fresh dict.

        Every property is required, an optional one is nullable, and there is no default and no bound: what strict modes
        of all providers have in common. Bounds are kept by `call`.
        """
        count = f"How many passages to return, 1 to {self.max_top_k}; null for {self._top_k}."
        return {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for: a question, a phrase or keywords."},
                "top_k": {"type": ["integer", "null"], "description": count},
            },
            "required": list(_ARGUMENTS),
            "additionalProperties": False,
        }

    def scoped(self, where: Mapping[str, Any]) -> "KBTool":
        """Give the same tool, bound to a further filter as well, e.g. to the tenant of one run.

        Raises:
            InvalidFilterError: `where` is not in the dialect.
            TypeError: `where` is None.
        """
        if where is None:  # from a function of the run that found no tenant, say: that must not open everything
            raise TypeError("where must be a filter such as {'tenant': 'a'}, got None; {} adds none")
        bound, added = self.search_options["where"], _checked_filter(where)
        tool = copy(self)
        tool.search_options = {**self.search_options, "where": added if bound is None else {"$and": [bound, added]}}
        return tool

    def parse_arguments(self, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        """Read the arguments that a model sent, for `call(**…)`.

        Args:
            arguments: A mapping, or a JSON object as text.

        Raises:
            ValueError: They can't be understood; the message tells the model what would be right.
        """
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise _refusal(f"the arguments of {self.name} must be a JSON object: {error}") from None
        if not isinstance(arguments, Mapping):
            raise _refusal(f"the arguments of {self.name} must be a JSON object, got {type(arguments).__name__}")
        unknown = [str(name)[:40] for name in arguments if name not in _ARGUMENTS]
        if unknown:
            raise _refusal(f"{self.name} takes query and top_k, got {', '.join(map(repr, unknown))}")
        if "query" not in arguments:
            raise _refusal(f"{self.name} needs a query: a string")
        query, top_k = self._checked(arguments["query"], arguments.get("top_k"))
        return {"query": query, "top_k": top_k}

    def call(self, query: str, top_k: int | None = None) -> SearchText:
        """Search, and give the text for the model.

        Args:
            query: What to look for.
            top_k: How many passages: below 1 counts as 1, above `max_top_k` as that; None: the tool's own number.

        Returns:
            `format_results` of the hits, which are on it as `results`.

        Raises:
            ValueError: `query` is no string, or `top_k` no whole number.
            KBError: What the search raises.
        """
        query, top_k = self._checked(query, top_k)
        with self._trace.tool(query, top_k) as span:
            with self._trace.retrieval(query, top_k) as child:
                results = self.kb.search(query, top_k, **self.search_options)
                child.documents(results)
            return self._answer(results, span)

    async def acall(self, query: str, top_k: int | None = None) -> SearchText:
        """Do as `call`, without blocking the event loop."""
        query, top_k = self._checked(query, top_k)
        with self._trace.tool(query, top_k) as span:
            with self._trace.retrieval(query, top_k) as child:
                results = await self.kb.asearch(query, top_k, **self.search_options)
                child.documents(results)
            return self._answer(results, span)

    def _answer(self, results: list[SearchResult], span: Recorder) -> SearchText:
        text = SearchText(format_results(results, self._metadata_keys), results)
        span.hits(results)
        span.content("gen_ai.tool.call.result", text)
        return text

    def _checked(self, query: object, top_k: object) -> tuple[str, int]:
        # Not every provider has a strict mode, and where there is one the flag gets lost: never rely on the schema.
        if not isinstance(query, str):
            raise _refusal(f"query must be a string, got {type(query).__name__}")
        if top_k is None:
            return clean_text(query), self._top_k
        if isinstance(top_k, float) and top_k.is_integer():  # JSON knows one kind of number: 3.0 is 3
            top_k = int(top_k)
        if isinstance(top_k, bool) or not isinstance(top_k, int):
            raise _refusal(f"top_k must be a whole number from 1 to {self.max_top_k}, or null, got {top_k!r:.40}")
        return clean_text(query), min(max(top_k, 1), self.max_top_k)


def _refusal(message: str) -> ValueError:
    """Make the one error for all that a model may get wrong, so that an adapter has one to translate."""
    return ValueError(message)


def _describe(kb: "KnowledgeBase") -> str:
    start = f'Search the knowledge base "{kb.name[:200]}".'
    end = 'Returns passages, best first, each as "[Score: 0.700] text".'
    about = " ".join(kb.description.split())
    room = MAX_DESCRIPTION - len(start) - len(end) - 2
    if len(about) > room:
        about = about[: room - 1] + "…"
    return f"{start} {about} {end}" if about else f"{start} {end}"


def _checked_name(name: str) -> str:
    if not is_legal_tool_name(name):
        raise ValueError(f"the name of a tool must be 1 to 64 of a-z, A-Z, 0-9, _ and -, got {name!r:.100}")
    return name


def _checked_description(description: str) -> str:
    if len(description) > MAX_DESCRIPTION:
        raise ValueError(f"description may have {MAX_DESCRIPTION} characters at most, got {len(description)}")
    return description


def _checked_filter(where: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if where is None:
        return None
    parse_filter(where)
    return deepcopy(dict(where))
