"""What OpenAI refuses in the definition of a function, as its error messages and its guide to structured outputs say.

Stricter where other providers with a strict mode are: a keyword that one of them does not know counts as refused.
"""

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile("^[a-zA-Z0-9_-]+$")
_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_ANNOTATIONS = {"title", "description"}
_KEYWORDS = {"type", "properties", "required", "additionalProperties", "enum", "anyOf", "items"} | _ANNOTATIONS


def refusals_of_function(function: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with `{"name", "description", "parameters", "strict"}`; nothing where it is taken."""
    name = function["name"]
    if _NAME.fullmatch(name) is None:
        yield f"Invalid 'tools[0].name': string does not match pattern. Expected '{_NAME.pattern}', got {name!r}."
    if len(name) > _MAX_NAME:
        yield f"Invalid 'tools[0].name': string too long. Expected a maximum length {_MAX_NAME}, got {len(name)}."
    if len(function.get("description") or "") > _MAX_DESCRIPTION:
        yield f"Invalid 'tools[0].description': string too long. Expected a maximum length {_MAX_DESCRIPTION}."
    parameters = function["parameters"]
    if parameters.get("type") != "object":
        yield f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
    elif function.get("strict"):
        for refusal in refusals_of_strict_schema(parameters):
            yield f"Invalid schema for function '{name}': {refusal}"


def refusals_of_strict_schema(schema: dict[str, Any], context: tuple[str, ...] = ()) -> Iterator[str]:
    """Say what a strict mode refuses in a schema."""
    where = f"In context={context}, "
    yield from (f"{where}'{keyword}' is not permitted." for keyword in schema if keyword not in _KEYWORDS)
    types = schema.get("type", [])
    types = {types} if isinstance(types, str) else set(types)
    if not types <= _TYPES:
        yield f"{where}unknown type {sorted(types - _TYPES)}."
    if not types and not {"anyOf", "enum"} & schema.keys():
        yield f"{where}schema must have a 'type' key."
    properties = schema.get("properties", {})
    if "object" in types:
        if schema.get("additionalProperties") is not False:
            yield f"{where}'additionalProperties' is required to be supplied and to be false."
        missing = properties.keys() - set(schema.get("required", ()))
        if missing:
            yield f"{where}'required' must include every key in properties. Missing {sorted(missing)}."
    for key, value in properties.items():
        yield from refusals_of_strict_schema(value, (*context, "properties", key))
    for number, choice in enumerate(schema.get("anyOf", ())):
        yield from refusals_of_strict_schema(choice, (*context, "anyOf", str(number)))
    if "array" in types:
        yield from refusals_of_strict_schema(schema.get("items", {}), (*context, "items"))
