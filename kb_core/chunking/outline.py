"""A text made plain for cutting: same length, but every separator looks alike and what is to stay whole is one word."""

import re
from collections.abc import Sequence

from kb_core.chunking.markdown import find_fences, find_headings
from kb_core.chunking.spans import Span, skip_blanks, trim_blanks

_BLANK_LINE = re.compile(r"\n[^\S\n]++(?=\n)")
# One quick pass that tells most texts from those with such a line or a heading; it may err on the safe side.
_MAYBE_IRREGULAR = re.compile(r"\n(?=[ \t\r\f\v\xa0\u3000#])[ \t\r\f\v\xa0\u3000]*+[\n#]")


class Outline:
    """What a text looks like to the search for seams.

    Attributes:
        text: As long as the original, and blank where that is blank but in fences. An empty line with blanks on it (or
            a carriage return) is made of line breaks alone. A fence that is kept whole is a run of letters. A heading
            has only spaces between itself and the text below. A text with none of these is taken as it is.
        fences: Those to be kept whole.
        headings: Where the text before each heading ends, in order; but for one that opens the text or follows another.
    """

    __slots__ = ("fences", "headings", "text")

    def __init__(self, text: str, max_fence: int) -> None:
        """Read the text; fences of up to `max_fence` characters are kept whole."""
        self.text = text
        self.headings: Sequence[int] = ()
        self.fences: Sequence[Span] = ()
        fences = find_fences(text)
        if fences or _MAYBE_IRREGULAR.search(text) or text.startswith("#"):
            self._read(text, fences, max_fence)

    def _read(self, text: str, fences: Sequence[Span], max_fence: int) -> None:
        titles = find_headings(text, fences)
        title_ends = {0, *(title.end for title in titles)}
        self.fences = [fence for fence in fences if fence.end - fence.start <= max_fence]
        self.headings = [seam for title in titles if (seam := trim_blanks(text, title.start)) not in title_ends]
        text = _BLANK_LINE.sub(_fill_with_line_breaks, text)
        self.text = _overwrite(text, _edits(text, self.fences, titles)) if titles or self.fences else text


def _fill_with_line_breaks(blank_line: re.Match[str]) -> str:
    return "\n" * (blank_line.end() - blank_line.start())


def _edits(text: str, fences: Sequence[Span], titles: Sequence[Span]) -> list[tuple[int, str]]:
    """List what is to be put over the text, and where."""
    code = [(fence.start, "x" * (fence.end - fence.start)) for fence in fences]
    # A heading's last character may be a full stop, after which a sentence would end.
    ends = [(title.end - 1, "x" + " " * (skip_blanks(text, title.end) - title.end)) for title in titles]
    return sorted([*code, *ends])


def _overwrite(text: str, edits: Sequence[tuple[int, str]]) -> str:
    """Put each string over the text at its offset, in order; no two overlap."""
    parts = []
    position = 0
    for start, replacement in edits:
        parts += [text[position:start], replacement]
        position = start + len(replacement)
    return "".join([*parts, text[position:]])
