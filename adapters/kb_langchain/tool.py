"""A knowledge base as a LangChain tool."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from kb_core.errors import KBError
from kb_core.formatting import SearchText, result_dict
from kb_core.protocols import KnowledgeBase
from kb_core.tool import KBTool

Scope = Callable[[RunnableConfig], Mapping[str, Any]]
"""Makes the filter of one run."""


def kb_tool(kb: KnowledgeBase, *, where: Mapping[str, Any] | Scope | None = None, **options: Any) -> StructuredTool:
    """Give the search of a knowledge base as a tool for an agent.

    The model chooses the query and `top_k`, and sees what `kb.as_tool()` answers: passages, `[Score: 0.700] text`. The
    `ToolMessage` carries the hits as its artifact, for citations: a list of dicts of JSON values as
    `kb_core.formatting.result_dict` makes them, which the model does not see and any checkpointer can keep.

    What is expected to go wrong reaches the model as a message with `status="error"`, and the run goes on: a `KBError`,
    and arguments that the model got wrong. Any other exception is a bug, and propagates.

    Args:
        kb: What is searched.
        where: A filter that every search is bound to, and that the model neither sees nor chooses; or a function that
            makes it of the run's config, as in `lambda config: {"tenant": config["configurable"]["tenant"]}`. What the
            function raises propagates: a run without a tenant finds nothing.
        options: As in `kb_core.tool.KBTool`: `name`, `description`, `top_k`, `max_top_k`, `min_score`, `search_type`,
            `alpha`, `metadata_keys` (metadata that the model sees below each passage), ….

    Raises:
        ValueError: An option is out of range, or not legal with every provider.
        TypeError: An option is unknown.
        InvalidFilterError: `where` is not in the dialect.
    """
    scope = where if callable(where) else None
    bound = KBTool(kb, where=None if callable(where) else where, **options)

    # LangChain finds `config` by its annotation, fills it in, and keeps it from the model.
    def search(query: str, top_k: int | None = None, *, config: RunnableConfig) -> _Answer:
        with _errors_for_the_model():
            return _answer(_scoped(bound, scope, config).call(query, top_k))

    async def asearch(query: str, top_k: int | None = None, *, config: RunnableConfig) -> _Answer:
        with _errors_for_the_model():
            return _answer(await _scoped(bound, scope, config).acall(query, top_k))

    arguments = _arguments_of(bound)
    return StructuredTool(
        name=bound.name,
        description=bound.description,
        args_schema=arguments,
        func=search,
        coroutine=asearch,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=arguments.refusal,
    )


class _Answer(NamedTuple):
    """What the model gets, and what goes with it.

    A class, since LangChain resolves a tool's annotations again at each call, and nested generics take it 10 µs more.
    """

    content: str
    artifact: list[dict[str, Any]]


class _Arguments(BaseModel):
    """What the model may send: the schema is for the model, the checks are the core's own."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    bound: ClassVar[KBTool]

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, arguments: Any) -> dict[str, Any]:
        return cls.bound.parse_arguments(arguments)

    @classmethod
    def refusal(cls, error: Any) -> str:
        """Tell the model what was wrong with its arguments, in the words of the core."""
        if error.title != cls.__name__:  # raised in the search, not by these arguments: a bug
            raise error
        return "; ".join(str(detail["ctx"]["error"]) for detail in error.errors())


def _arguments_of(tool: KBTool) -> type[_Arguments]:
    described = {name: shown["description"] for name, shown in tool.parameters["properties"].items()}
    # Required and nullable, without default and bounds, as in `KBTool.parameters`; `_parse` adds a `top_k` left out.
    arguments = create_model(
        tool.name,
        __base__=_Arguments,
        query=(str, Field(description=described["query"])),
        top_k=(int | None, Field(description=described["top_k"])),
    )
    arguments.bound = tool
    return arguments


def _scoped(tool: KBTool, scope: Scope | None, config: RunnableConfig) -> KBTool:
    return tool if scope is None else tool.scoped(scope(ensure_config(config)))


@contextmanager
def _errors_for_the_model() -> Iterator[None]:
    try:
        yield
    except KBError as error:
        raise ToolException(str(error)) from error


def _answer(found: SearchText) -> _Answer:
    return _Answer(str(found), [result_dict(result) for result in found.results])
