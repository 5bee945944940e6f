"""Half-open ranges of a text, and how blanks are stepped over. Blank is what `str.isspace` says."""

import re
from typing import NamedTuple

_NON_BLANK = re.compile(r"\S")


class Span(NamedTuple):
    """A slice of a text, in characters: `text[start:end]`."""

    start: int
    end: int


def skip_blanks(text: str, position: int) -> int:
    """Find the first non-blank character at or after the position, or the end of the text."""
    found = _NON_BLANK.search(text, position)
    return found.start() if found else len(text)


def trim_blanks(text: str, position: int) -> int:
    """Find where the text before the position ends, its trailing blanks aside; 0 if all of it is blank."""
    while position and text[position - 1].isspace():
        position -= 1
    return position
