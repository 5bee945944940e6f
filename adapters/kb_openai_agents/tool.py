"""A knowledge base as a tool of the OpenAI Agents SDK."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from agents import FunctionTool, FunctionToolCustomDataContext, function_tool
from agents.tool_context import ToolContext

from kb_core.errors import KBError
from kb_core.formatting import SearchText, result_dict
from kb_core.protocols import KnowledgeBase
from kb_core.tool import KBTool

Scope = Callable[[ToolContext[Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Makes the filter of one run."""

_FOLLOWS_FROM_THE_KB: Final = frozenset(
    {"func", "name_override", "description_override", "docstring_style", "use_docstring_info", "strict_mode"}
    | {"output_type", "output_json_schema"}
)

# Read from the SDK that is installed: newer ones know more options.
_SDK_OPTIONS: Final = inspect.signature(function_tool).parameters.keys() - _FOLLOWS_FROM_THE_KB


def kb_tool(
    kb: KnowledgeBase, *, where: Mapping[str, Any] | Scope | None = None, strict: bool = True, **options: Any
) -> FunctionTool:
    """Give the search of a knowledge base as a tool for an agent.

    The model chooses the query and `top_k`, and sees what `kb.as_tool()` answers: passages, `[Score: 0.700] text`. The
    `ToolCallOutputItem` of the run carries the hits for citations, which the model does not see: in `custom_data`, as
    `{"results": […]}`, dicts of JSON values as `kb_core.formatting.result_dict` makes them.

    What is expected to go wrong reaches the model as text, and the run goes on: a `KBError`, and arguments that the
    model got wrong. Any other exception is a bug, and the SDK does with it what it does for its own function tools:
    the model gets a fixed text, or what `failure_error_function` makes of it; with `failure_error_function=None` the
    run ends.

    Args:
        kb: What is searched.
        where: A filter that every search is bound to, and that the model neither sees nor chooses; or a function, async
            or not, that makes it of the context of the run, as in `lambda run: {"tenant": run.context.tenant}`. What
            the function raises is a bug as above: a run without a tenant finds nothing.
        strict: Whether the provider is asked to hold the model to the schema; the arguments are checked in any case.
            Servers that know no strict mode want False.
        options: As in `kb_core.tool.KBTool`: `name`, `description`, `top_k`, `max_top_k`, `min_score`, `search_type`,
            `alpha`, `metadata_keys` (metadata that the model sees below each passage), …; and as in
            `agents.function_tool`: `timeout` (seconds), `is_enabled`, `needs_approval`, `tool_input_guardrails`,
            `tool_output_guardrails`, `failure_error_function`, `custom_data_extractor` (in place of the citations), ….

    Raises:
        ValueError: An option is out of range, or not legal with every provider.
        TypeError: An option is unknown.
        InvalidFilterError: `where` is not in the dialect.
    """
    scope = where if callable(where) else None
    for_the_sdk = {name: options.pop(name) for name in _SDK_OPTIONS & options.keys()}
    bound = KBTool(kb, where=None if callable(where) else where, **options)

    async def search(context: ToolContext[Any], query: str, top_k: int | None) -> str:
        try:
            return await (await _scoped(bound, scope, context)).acall(query, top_k)
        except KBError as error:
            return str(error)

    # What becomes of a bug (formatter, span, log, redaction) is the SDK's, but of the arguments it tells the model no
    # more than that there was an error: so they are checked before it sees them, in the words of the core.
    searching = function_tool(search, name_override=bound.name, **{"custom_data_extractor": _citations, **for_the_sdk})

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        try:
            checked = bound.parse_arguments(arguments)
        except ValueError as error:
            return str(error)
        return await searching.on_invoke_tool(context, json.dumps(checked))

    return replace(
        searching,
        description=bound.description,
        params_json_schema=bound.parameters,
        strict_json_schema=strict,
        on_invoke_tool=invoke,
    )


async def _scoped(tool: KBTool, scope: Scope | None, context: ToolContext[Any]) -> KBTool:
    if scope is None:
        return tool
    where = scope(context)
    return tool.scoped(await where if inspect.isawaitable(where) else where)


def _citations(context: FunctionToolCustomDataContext) -> dict[str, Any] | None:
    """Keep the hits for the program; the text of an error, or of a guardrail in place of the answer, has none."""
    if not isinstance(context.output, SearchText):
        return None
    return {"results": [result_dict(result) for result in context.output.results]}
