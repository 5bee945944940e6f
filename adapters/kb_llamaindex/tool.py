"""A knowledge base as a LlamaIndex tool."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.vector_stores import MetadataFilters
from llama_index.core.workflow import Context
from pydantic import BaseModel, Field, create_model

from kb_core.errors import KBError
from kb_core.formatting import SearchText, result_dict
from kb_core.protocols import KnowledgeBase
from kb_core.tool import KBTool
from kb_llamaindex.filters import bound_filter

Scope = Callable[[Context], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Makes the filter of one run."""


def kb_tool(
    kb: KnowledgeBase,
    *,
    where: Mapping[str, Any] | Scope | None = None,
    filters: MetadataFilters | None = None,
    **options: Any,
) -> FunctionTool:
    """Give the search of a knowledge base as a tool for an agent.

    The model chooses the query and `top_k`, and sees what `kb.as_tool()` answers: passages, `[Score: 0.700] text`. The
    `ToolOutput` carries the hits as its `raw_output`, for citations: a list of dicts of JSON values as
    `kb_core.formatting.result_dict` makes them, which the model does not see and any workflow can serialise.

    What is expected to go wrong reaches the model as an output with `is_error`, and the run goes on: a `KBError`, and
    arguments that the model got wrong. Any other exception is a bug, and propagates; LlamaIndex's agents tell it to the
    model.

    Not LlamaIndex's `RetrieverTool`: it searches for the arguments as text, names included.

    Args:
        kb: What is searched.
        where: A filter that every search is bound to, and that the model neither sees nor chooses; or a function, async
            or not, that makes it of the run's `Context`. What the function raises is no search: a run without a tenant
            finds nothing. With a function, the tool runs in an agent or workflow only.
        filters: The same in LlamaIndex's terms; where both are given, both hold.
        options: As in `kb_core.tool.KBTool`: `name`, `description`, `top_k`, `max_top_k`, `min_score`, `search_type`,
            `alpha`, `metadata_keys` (metadata that the model sees below each passage), ….

    Raises:
        ValueError: An option is out of range, or not legal with every provider.
        TypeError: An option is unknown.
        InvalidFilterError: `where` is not in the dialect, or `filters` cannot be said in it.
    """
    bound = KBTool(kb, where=bound_filter(None if callable(where) else where, filters), **options)
    metadata = ToolMetadata(name=bound.name, description=bound.description, fn_schema=_arguments_of(bound))
    # The functions give the whole output, and the callbacks tell LlamaIndex to take it as it is. Both are given, since
    # it would run the one for the other in a thread of the loop's own pool.
    callbacks: dict[str, Any] = {"callback": _as_it_is, "async_callback": _as_it_is_async}
    if callable(where):
        return FunctionTool(async_fn=_scoped_search(bound, where), metadata=metadata, **callbacks)

    def search(*values: Any, **named: Any) -> ToolOutput:
        try:
            found = bound.call(**_parsed(bound, values, named))
        except KBError as error:
            return _refusal(bound, values, named, error)
        return _answer(bound, values, named, found)

    async def asearch(*values: Any, **named: Any) -> ToolOutput:
        return await _asearch(bound, values, named)

    return FunctionTool(fn=search, async_fn=asearch, metadata=metadata, **callbacks)


def _arguments_of(tool: KBTool) -> type[BaseModel]:
    """Describe the arguments to the model; they are checked by the core alone."""
    described = {name: shown["description"] for name, shown in tool.parameters["properties"].items()}
    arguments: type[BaseModel] = create_model(
        tool.name,
        query=(str, Field(description=described["query"])),
        top_k=(int | None, Field(description=described["top_k"])),
    )
    return arguments


def _scoped_search(tool: KBTool, scope: Scope) -> Callable[..., Awaitable[ToolOutput]]:
    # LlamaIndex finds `ctx` by its annotation, fills it in, and keeps it from the model.
    async def asearch(*values: Any, ctx: Context, **named: Any) -> ToolOutput:
        where = scope(ctx)
        scoped = tool.scoped(await where if inspect.isawaitable(where) else where)
        return await _asearch(scoped, values, named)

    return asearch


async def _asearch(tool: KBTool, values: tuple[Any, ...], named: dict[str, Any]) -> ToolOutput:
    try:
        found = await tool.acall(**_parsed(tool, values, named))
    except KBError as error:
        return _refusal(tool, values, named, error)
    return _answer(tool, values, named, found)


def _parsed(tool: KBTool, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Read what came by place or by name; raise a `KBError` in the words of the core where it is wrong."""
    placed = dict(zip(("query", "top_k"), values, strict=False))
    if len(placed) < len(values) or placed.keys() & named.keys():  # a program's doing: models send names
        raise TypeError(f"{tool.name} takes query and top_k, each once, got {len(values)} by place and {list(named)}")
    try:
        return tool.parse_arguments(placed | named)
    except ValueError as error:
        raise KBError(str(error)) from error


def _answer(tool: KBTool, values: tuple[Any, ...], named: dict[str, Any], found: SearchText) -> ToolOutput:
    return ToolOutput(
        tool_name=tool.name,
        content=str(found),
        raw_input={"args": values, "kwargs": named},
        raw_output=[result_dict(result) for result in found.results],
    )


def _refusal(tool: KBTool, values: tuple[Any, ...], named: dict[str, Any], error: KBError) -> ToolOutput:
    return ToolOutput(
        tool_name=tool.name,
        content=str(error),
        raw_input={"args": values, "kwargs": named},
        raw_output=str(error),
        is_error=True,
    )


def _as_it_is(output: ToolOutput) -> ToolOutput:
    return output


async def _as_it_is_async(output: ToolOutput) -> ToolOutput:
    return output
