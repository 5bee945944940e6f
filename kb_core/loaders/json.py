"""JSON, JSON lines and notebooks as text."""

import json
import re
from collections.abc import Iterator
from typing import Any

from kb_core.errors import LoaderError
from kb_core.loaders.decoding import decode
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits, TextBuilder
from kb_core.loaders.text import refuse_binary

_TEXT_FIELDS = ("content", "text", "page_content")
_ID_FIELDS = ("id", "_id")
_MAX_NUMBERS = 32
"""A longer list of numbers is an embedding, which neither reads as text nor filters."""
_MAX_PATH = 10_000
"""Characters of a path of keys: a huge key with much below it would be copied for each level and value."""


def load_json(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a JSON file, or one of JSON lines.

    A list becomes one document a record where each record is a text, or an object with one: `content`, `text` or
    `page_content`, the first that is a string that is not blank. A `title` is put in front of the text, unless the text
    begins with it; the other fields become metadata, those of an object `metadata` among them; `id` or `_id` identifies
    the document. A record's own `source` is kept as `record_source`: the source of a document is the file.

    Anything else becomes one document with a line `path.to.key: value` for each value; lists of plain values stand in
    one line, objects in a list are set apart by a blank line. Nulls are left out.
    """
    refuse_binary(data, is_named_text=True)
    decoded = decode(data)
    if not decoded.text.strip():
        return Extracted([ExtractedText("")], decoded.warnings)
    try:
        value = _parse(decoded.text, is_lines=suffix in {".jsonl", ".ndjson"})
        extracted = _extract(value, suffix, limits)
    except RecursionError as error:
        raise LoaderError("it is nested too deeply") from error
    for text in extracted.texts:
        text.metadata = decoded.metadata | text.metadata
    extracted.warnings[:0] = decoded.warnings
    return extracted


def _parse(text: str, *, is_lines: bool) -> Any:
    if is_lines:
        return list(_lines(text))
    try:
        return _value(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise LoaderError(f"it is not valid JSON: {error}") from error
    return list(_lines(text))  # JSON lines are often named .json


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(" \t\0"):
            try:
                yield _value(line)
            except json.JSONDecodeError as error:
                where = f"line {number:,}, column {error.colno:,}"
                raise LoaderError(f"it is not valid JSON: {error.msg} at {where}") from error


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer of more digits than Python converts
        raise LoaderError(f"it is not valid JSON: {error}") from error


def _no_number(_constant: str) -> None:
    """Take NaN and the infinities, which JSON does not have and Python writes, for null."""


def _extract(value: Any, suffix: str, limits: Limits) -> Extracted:
    if suffix == ".ipynb":
        return Extracted([_notebook(value, limits)])
    if isinstance(value, list) and value:
        records = [{"text": record} if isinstance(record, str) else record for record in value]
        if all(map(_text_field, records)):
            return _records(records)
    text = TextBuilder(limits.max_chars)
    _render(value, "", text)
    return Extracted([ExtractedText(str(text))])


def _text_field(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    return next((key for key in _TEXT_FIELDS if isinstance(record.get(key), str) and record[key].strip()), None)


def _records(records: list[dict[str, Any]]) -> Extracted:
    extracted = Extracted([])
    keys: set[str] = set()
    left_out: set[str] = set()
    for record in records:
        text_field = _text_field(record) or ""
        fields = {key: value for key, value in record.items() if key not in {text_field, "metadata"}}
        inner = record.get("metadata")
        fields |= inner if isinstance(inner, dict) else {} if inner is None else {"metadata": inner}
        if "source" in fields:
            fields["record_source"] = fields.pop("source")
        left_out |= {key for key, value in fields.items() if _is_embedding(value)}
        metadata = {key: value for key, value in fields.items() if not _is_embedding(value)}
        key = next((str(record[name]) for name in _ID_FIELDS if isinstance(record.get(name), str | int)), "")
        extracted.texts.append(ExtractedText(_titled(record, record[text_field]), metadata, "" if key in keys else key))
        keys.add(key)
    if left_out:
        extracted.warnings.append(f"long lists of numbers were left out: {', '.join(sorted(left_out))}")
    return extracted


def _titled(record: dict[str, Any], text: str) -> str:
    title = record.get("title")
    if not isinstance(title, str) or not title.strip() or text.lstrip().startswith(title.strip()):
        return text
    return f"{title.strip()}\n\n{text}"


def _is_embedding(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) > _MAX_NUMBERS and all(isinstance(item, float | int) for item in value)
    )


def _render(value: Any, path: str, text: TextBuilder, seam: str = "\n") -> None:
    """Write `value` as lines; `seam` goes in front of the first."""
    if isinstance(value, dict):
        for key, item in value.items():
            key_path = f"{path}.{key}" if path else key
            if len(key_path) > _MAX_PATH:
                raise LoaderError(f"its keys, joined into a path, are longer than {_MAX_PATH:,} characters")
            _render(item, key_path, text, seam)
            seam = "\n"
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for item in value:
            _render(item, path, text, "\n\n")
    elif isinstance(value, list):
        if value and not _is_embedding(value):
            _render_line(", ".join(_plain(item) for item in value if item is not None), path, text, seam)
    elif value is not None:
        _render_line(_plain(value), path, text, seam)


def _render_line(value: str, path: str, text: TextBuilder, seam: str) -> None:
    text.add(f"{path}: {value}" if path else value, seam)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _notebook(value: Any, limits: Limits) -> ExtractedText:
    """Take the source of a Jupyter notebook's cells; outputs are left out, as they are pictures and numbers mostly."""
    text = TextBuilder(limits.max_chars)
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        raise LoaderError("it is no notebook of format 4: it has no list of cells")
    for cell in cells:
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        # A list of lines or one string: both are valid, https://nbformat.readthedocs.io.
        source = "".join(map(str, source)) if isinstance(source, list) else str(source)
        source = re.sub(r"!\[[^\]]{0,200}\]\(data:[^)]*\)", "", source).strip()
        if source:
            text.add(source, "\n\n")
    return ExtractedText(str(text))
