"""Tables as text: CSV and its kin, one passage a row."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from kb_core.errors import LoaderError
from kb_core.loaders.decoding import decode
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits, TextBuilder
from kb_core.loaders.text import refuse_binary

_DELIMITERS = ",;\t|"
_SAMPLE_CHARS = 64 * 1024
_SAMPLE_ROWS = 50
_BLANK_LINES = re.compile(r"\n\s*\n")
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[%€$£]?")


def load_table(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a CSV or TSV file: each row becomes lines of `column: value`, with a blank line between rows.

    So a passage says by itself what its values are. The first row names the columns, unless it holds numbers or
    repetitions; columns without a name are called `column 1`, `column 2`, …. Blank values are left out.
    """
    refuse_binary(data, is_named_text=True)
    decoded = decode(data)
    text, delimiter = _delimiter_line(decoded.text)
    if delimiter is None:
        delimiter = "\t" if suffix in {".tsv", ".tab"} else _likely_delimiter(text)
    rows = _rows(text, delimiter)
    first = next(rows, [])
    names = first if _is_header(first) else []
    passages = TextBuilder(limits.max_chars)
    for row in rows if names else _chained(first, rows):
        passage = _passage(row, names)
        if passage:
            passages.add(passage, "\n\n")
    content = str(passages) or ", ".join(filter(None, names))  # a table of nothing but its header
    return Extracted([ExtractedText(content, dict(decoded.metadata))], decoded.warnings)


def _delimiter_line(text: str) -> tuple[str, str | None]:
    """Split off the first line `sep=;` by which Excel states the delimiter."""
    match = re.match(r"sep=(.)\n", text, re.IGNORECASE)
    return (text[match.end() :], match[1]) if match else (text, None)


def _likely_delimiter(text: str) -> str:
    """Choose the delimiter by which most rows have the same number of cells, above one; then the most cells."""
    sample = text[:_SAMPLE_CHARS]
    return max(_DELIMITERS, key=lambda delimiter: _regularity(sample, delimiter))


def _regularity(sample: str, delimiter: str) -> tuple[float, int]:
    try:
        rows = list(islice(csv.reader(io.StringIO(sample), delimiter=delimiter), _SAMPLE_ROWS))
    except csv.Error:
        return 0.0, 0
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return 0.0, 0
    width, n_rows = widths.most_common(1)[0]
    return n_rows / len(rows), width


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            cells = [cell.strip("\0 \t\n") for cell in row]
            if any(cells):
                yield cells
    except csv.Error as error:
        hint = " (is a quotation mark not closed?)" if "field limit" in str(error) else ""
        raise LoaderError(f"line {reader.line_num:,} is no {delimiter!r}-separated row: {error}{hint}") from error


def _chained(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    if first:
        yield first
    yield from rows


def _is_header(cells: list[str]) -> bool:
    named = [cell for cell in cells if cell]
    return bool(named) and len(set(named)) == len(named) and not any(_NUMBER.fullmatch(cell) for cell in named)


def _passage(row: list[str], names: list[str]) -> str:
    lines = []
    for index, value in enumerate(row):
        if value:
            name = names[index] if index < len(names) and names[index] else f"column {index + 1}"
            lines.append(f"{name}: {_BLANK_LINES.sub(chr(10), value)}")
    return "\n".join(lines)
