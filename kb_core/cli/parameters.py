"""What values on the command line may be; each is checked before anything is opened."""

import json
import math
import os
from collections.abc import Callable
from typing import Any, NoReturn

import click

EMBEDDERS = ("auto", "fastembed", "openai", "static", "hashing")
_WITH_MODEL = ("fastembed", "openai")


def text(value: str) -> str:
    """Take text that any store can hold: UTF-8 in whatever locale, NUL and stray bytes replaced by U+FFFD."""
    from kb_core.metadata import clean_text

    return clean_text(_as_utf8(value))


def _as_utf8(argument: str) -> str:
    # In the C locale Python decodes arguments as ASCII, and hides every other byte in a lone surrogate.
    if not any("\udc80" <= char <= "\udcff" for char in argument):
        return argument
    try:
        return os.fsencode(argument).decode(errors="replace")
    except UnicodeEncodeError:
        return argument


def folder(value: str) -> str:
    """Take a path that may not exist yet."""
    if "\0" in value:
        raise click.BadParameter("a path cannot hold NUL")
    return value


def number(low: float = -math.inf, high: float = math.inf) -> Callable[[str], float]:
    """Make a type that takes a finite number, in a range where one is given."""

    def parse(value: str) -> float:
        try:
            parsed = float(value)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a number") from None
        if not math.isfinite(parsed) or not low <= parsed <= high:
            limits = "finite" if math.isinf(low) else f"from {low:g} to {high:g}"
            raise click.BadParameter(f"must be {limits}, got {value}")
        return parsed

    return parse


def where(value: str) -> dict[str, Any]:
    """Take a filter in the dialect of `kb_core.filters`, as JSON."""
    from kb_core.errors import InvalidFilterError
    from kb_core.filters import parse_filter

    try:
        parsed = _parse_json(_as_utf8(value))
    except (ValueError, RecursionError):
        raise click.BadParameter(f'{value[:80]!r} is not JSON; write it like {{"lang": "en"}}') from None
    try:
        parse_filter(parsed)
    except (InvalidFilterError, TypeError) as error:
        raise click.BadParameter(str(error)) from error
    return dict(parsed)


def metadata(value: str) -> tuple[str, Any]:
    """Take `key=value`; the value is JSON where it reads as such, else text."""
    from kb_core.metadata import normalise_metadata

    key, separator, written = _as_utf8(value).partition("=")
    if not separator or not key:
        raise click.BadParameter(f"must be KEY=VALUE, got {value!r}")
    try:
        parsed = _parse_json(written)
    except (ValueError, RecursionError):
        parsed = written
    try:
        ((key, parsed),) = normalise_metadata({key: parsed}).items()
    except (ValueError, TypeError) as error:
        raise click.BadParameter(str(error)) from error
    return key, parsed


def _parse_json(written: str) -> Any:
    return json.loads(written, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def embedder_spec(value: str) -> str:
    """Take the name of an embedder, `kind` or `kind:model`."""
    kind, separator, model = value.partition(":")
    if kind not in EMBEDDERS:
        raise click.BadParameter(f"must be one of {', '.join(EMBEDDERS)}, got {value!r}")
    if separator and (kind not in _WITH_MODEL or not model):
        raise click.BadParameter(f"{' and '.join(_WITH_MODEL)} take a model, as in fastembed:NAME; got {value!r}")
    return value


def make_embedder(spec: str | None) -> object | None:
    """Make the embedder that a specification names; None for `auto`, where the knowledge base chooses.

    Raises:
        click.BadParameter: There is no such model.
        EmbedderUnavailableError: It cannot be made here.
    """
    kind, _, model = (spec or "auto").partition(":")
    if kind == "auto":
        return None
    from kb_core import embedders

    try:
        if kind == "fastembed":
            return embedders.FastEmbedEmbedder(model or None)
        if kind == "openai":
            return embedders.OpenAIEmbedder(model) if model else embedders.OpenAIEmbedder()
        return embedders.StaticEmbedder() if kind == "static" else embedders.HashingEmbedder()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--embedder") from error
