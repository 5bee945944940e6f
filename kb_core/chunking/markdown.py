"""What chunking needs to know of Markdown: fenced code blocks and ATX headings (CommonMark 0.31, 4.2 and 4.5)."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kb_core.chunking.spans import Span, trim_blanks

# Each pattern starts with one certain character (`re` looks for that fast) and takes the rest of its line.
_FENCE = re.compile(r"(?P<run>([`~])\2{2,})(?P<rest>[^\n]*)")
_HEADING = re.compile(r"##{0,5}(?=[ \t])[^\n]*")
_BEFORE_OPENING = re.compile(r"[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]*){0,8}")
_BEFORE_CLOSING = re.compile(r"[ \t>]*")
_BEFORE_HEADING = re.compile(r" {0,3}")


def find_fences(text: str) -> list[Span]:
    """Find closed fences, also in list items and quotes. One that is never closed is ordinary text: nothing is lost."""
    # One character is found much faster than three, and most texts have neither.
    has_fences = ("`" in text and "```" in text) or ("~" in text and "~~~" in text)
    return list(_fences(text)) if has_fences else []


def find_headings(text: str, fences: Sequence[Span]) -> list[Span]:
    """Find the headings outside of the fences, from their first `#` to their last character."""
    return list(_headings(text, fences))


def fence_around(fences: Sequence[Span], position: int) -> Span | None:
    """Find the fence that a cut at the position would go through."""
    index = bisect_right(fences, (position,)) - 1
    if index >= 0 and fences[index].start < position < fences[index].end:
        return fences[index]
    return None


def _fences(text: str) -> Iterator[Span]:
    opening = ""
    start = 0
    for found in _FENCE.finditer(text):
        line = text.rfind("\n", 0, found.start()) + 1
        run, rest = found["run"], found["rest"]
        if opening:
            is_closing = run.startswith(opening) and not rest.strip()
            if is_closing and _BEFORE_CLOSING.fullmatch(text, line, found.start()):
                yield Span(start, trim_blanks(text, found.end()))
                opening = ""
        elif (run[0] == "~" or "`" not in rest) and _BEFORE_OPENING.fullmatch(text, line, found.start()):
            opening = run
            indented = text[line : found.end()]
            start = found.end() - len(indented.lstrip())


def _headings(text: str, fences: Sequence[Span]) -> Iterator[Span]:
    for found in _HEADING.finditer(text):
        line = text.rfind("\n", 0, found.start()) + 1
        is_at_start = _BEFORE_HEADING.fullmatch(text, line, found.start())
        if is_at_start and not fence_around(fences, found.start()):
            yield Span(found.start(), trim_blanks(text, found.end()))
