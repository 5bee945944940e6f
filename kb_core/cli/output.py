"""What is printed: tables on a terminal, plain lines in a pipe, one JSON document on request."""

import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

MAX_WIDTH = 100
"""Columns; longer lines of prose are hard to read, however wide the terminal is."""

SHORT_ID = 8
"""Digits of an id that are shown in a table; `show` and `delete` take any unique beginning."""

# C0, DEL and C1 but tab and newline: a document must not steer the terminal that it is shown on.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def is_terminal() -> bool:
    """Tell whether a person reads standard output."""
    return sys.stdout.isatty()


def console() -> "Console":
    """Give the console for standard output, when that is a terminal."""
    from rich.console import Console

    # Documents hold brackets, colons and numbers of their own: nothing in them is markup.
    found = Console(markup=False, emoji=False, highlight=False)
    found.width = min(found.width, MAX_WIDTH)
    return found


def printable(text: str) -> str:
    """Replace control characters, except tab and newline, by U+FFFD."""
    return _CONTROLS.sub("\ufffd", text)


def emit_json(value: Any) -> None:
    """Print a value as one strictly valid JSON document, which no encoding of the console can damage."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    click.echo(json.dumps(value, ensure_ascii=not is_utf8, allow_nan=False, indent=2))


def emit_table(headers: Sequence[str], rows: Iterable[Sequence[str | int]], *, wrapping: Collection[str] = ()) -> None:
    """Print rows: a table on a terminal, else tab-separated without a header, tabs and newlines in values escaped.

    Args:
        headers: One a column.
        rows: Numbers are set flush right in a table.
        wrapping: The headers of columns that a narrow terminal may break into lines.
    """
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(str(value).translate(_TSV_ESCAPES) for value in row))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    listed = list(rows)
    for position, header in enumerate(headers):
        is_number = bool(listed) and isinstance(listed[0][position], int)
        table.add_column(
            header, justify="right" if is_number else "left", overflow="fold", no_wrap=header not in wrapping
        )
    for row in listed:
        table.add_row(*(Text(f"{v:,}" if isinstance(v, int) else printable(v).replace("\n", "\ufffd")) for v in row))
    console().print(table)


def emit_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values: aligned on a terminal, where there is a value; else a line each, separated by a tab."""
    shown = {
        name: "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
    }
    if not is_terminal():
        for name, value in shown.items():
            click.echo(f"{name.translate(_TSV_ESCAPES)}\t{value.translate(_TSV_ESCAPES)}")
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in shown.items():
        if value:
            grid.add_row(Text(printable(name)), Text(printable(value)))
    console().print(grid)


def warn(message: str) -> None:
    """Print a line on standard error."""
    click.echo(printable(message) if sys.stderr.isatty() else message, err=True)


def count(n: int, noun: str) -> str:
    """Count in words: `1 document`, `1,200 documents`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def size(n_bytes: int) -> str:
    """Give a size that a person can read, in units of 1,000."""
    number = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
