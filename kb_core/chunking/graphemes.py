"""Where a text may be cut without cutting a user-perceived character: extended grapheme clusters (UAX #29)."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate
from typing import Any

# Two neighbours of these ranges (ASCII, kana, Han, Hangul syllables, full-width forms) always have a boundary between.
_SURE_PAIR = re.compile("[ -~、-〩ぁ-ゖァ-ヿ㐀-䶿一-鿿가-힣！-｠]{2}")

_JOINERS = frozenset(
    ["\u200c", "\u200d", "\uff9e", "\uff9f", *map(chr, range(0x1F3FB, 0x1F400)), *map(chr, range(0xE0020, 0xE0080))]
)


@cache
def _clusters() -> Any:
    import regex

    # Flags come first because `\X` counts all regional indicators before each: quadratic in a row of flags.
    return regex.compile(r"[\U0001F1E6-\U0001F1FF]{2}[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]*+|\X")


def joins_previous(character: str) -> bool:
    """Tell whether the character belongs to the grapheme before it, whatever that is: marks, joiners, skin tones."""
    if character.isascii():
        return False
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


class Graphemes:
    """The grapheme boundaries of one text, found near the places that are asked for.

    Every question names a place `since`, at or before the position: a boundary, or one within what was read before.
    Answers for rising positions cost time linear in the distance between them.
    """

    def __init__(self, text: str, max_length: int) -> None:
        """Read nothing yet.

        Args:
            text: The text.
            max_length: Within a longer grapheme than this, reading starts anew at `since`.
        """
        self._text = text
        self._max_length = max_length
        self._marks = [0]
        self._read_to = 0

    def last(self, position: int, *, since: int) -> int:
        """Find the last boundary at or before the position."""
        if _SURE_PAIR.match(self._text, position - 1):
            return position
        self._read(since, position)
        return self._marks[bisect_right(self._marks, position) - 1]

    def first(self, position: int, *, since: int, before: int) -> int | None:
        """Find the first boundary at or after the position, if there is one before `before`."""
        if _SURE_PAIR.match(self._text, position - 1):
            return position
        self._read(since, before)
        index = bisect_left(self._marks, position)
        return self._marks[index] if index < len(self._marks) and self._marks[index] < before else None

    def _read(self, since: int, to: int) -> None:
        anchor = since
        if self._marks[0] <= since <= self._read_to:
            if to <= self._read_to:
                return
            anchor = self._marks[bisect_right(self._marks, since) - 1]
            if since - anchor > self._max_length:
                anchor = since
        lengths = map(len, _clusters().findall(self._text[anchor : to + 1]))
        self._marks = list(accumulate(lengths, initial=anchor))
        self._marks.pop()  # the end of the slice, not of a grapheme
        self._read_to = to
