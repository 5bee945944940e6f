"""The places where a text falls apart naturally: one class a way of finding them.

A seam is the offset at which the text before it ends, trailing blanks aside.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from kb_core.chunking.graphemes import joins_previous
from kb_core.chunking.spans import trim_blanks

_CLOSERS = r"""["'”’»›)\]}」』）］】》〉]"""
# Western, Arabic and Indic full stops end a sentence before a blank; the East Asian ones anywhere.
_SENTENCE_END = rf"(?:[.!?…؟۔।॥]{_CLOSERS}*+(?=\s)|[。！？｡]{_CLOSERS}*+)"
_FIRST_SENTENCE_END = re.compile(_SENTENCE_END)
_LAST_SENTENCE_END = re.compile(rf"(?s:.*)({_SENTENCE_END})")

_BLANK = re.compile(r"\s")


class Seams(Protocol):
    """The seams of one kind. Both methods take time linear in the range that they look through."""

    def last(self, text: str, least: int, limit: int, reach: int) -> int:
        """Find the last seam up to `limit`; what it gives otherwise is not above `least`.

        Args:
            text: The outline of a text.
            least: No seam up to here is wanted. The character is not blank, or the one before it is not.
            limit: Less than the end of the text.
            reach: The first non-blank character from the limit on.
        """
        ...

    def first(self, text: str, after: int, until: int) -> int:
        """Find the first seam with `after < seam <= until`, or 0."""
        ...


class HeadingSeams:
    """Seams before headings."""

    __slots__ = ("_seams",)

    def __init__(self, seams: Sequence[int]) -> None:
        self._seams = seams

    def last(self, text: str, least: int, limit: int, reach: int) -> int:  # the protocol's
        """See `Seams.last`."""
        index = bisect_right(self._seams, limit)
        return self._seams[index - 1] if index else 0

    def first(self, text: str, after: int, until: int) -> int:  # the protocol's
        """See `Seams.first`."""
        index = bisect_right(self._seams, after)
        return self._seams[index] if index < len(self._seams) and self._seams[index] <= until else 0


class LiteralSeams:
    """Seams behind a string, which stays with the text before it but for its trailing blanks."""

    __slots__ = ("_kept", "_length", "_separator")

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._length = len(separator)
        self._kept = len(separator.rstrip())

    def last(self, text: str, least: int, limit: int, reach: int) -> int:  # the protocol's
        """See `Seams.last`."""
        seam = text.rfind(self._separator, least, reach)
        if seam < 0:
            return 0
        seam += self._kept
        while text[seam - 1].isspace():
            seam -= 1
        return seam

    def first(self, text: str, after: int, until: int) -> int:
        """See `Seams.first`."""
        seam = text.find(self._separator, after + 1 - self._kept, until + self._length)
        if seam < 0:
            return 0
        seam = trim_blanks(text, seam + self._kept)
        return seam if after < seam <= until else 0


class SentenceSeams:
    """Seams behind a full stop and the quotes and brackets that close after it."""

    __slots__ = ()

    def last(self, text: str, least: int, limit: int, reach: int) -> int:  # the protocol's
        """See `Seams.last`."""
        stop = limit + 1  # a seam at the limit has its blank behind
        while found := _LAST_SENTENCE_END.match(text, least, stop):
            seam = found.end()
            if seam <= limit and not joins_previous(text[seam]):
                return seam
            stop = found.start(1)
        return 0

    def first(self, text: str, after: int, until: int) -> int:
        """See `Seams.first`."""
        for found in _FIRST_SENTENCE_END.finditer(text, after, until + 1):
            seam = found.end()
            if after < seam <= until and not joins_previous(text[seam : seam + 1]):
                return seam
        return 0


class WordSeams:
    """Seams at blanks."""

    __slots__ = ()

    def last(self, text: str, least: int, limit: int, reach: int) -> int:
        """See `Seams.last`."""
        window = text[least:limit]
        if reach > limit or window[-1].isspace():
            return least + len(window.rstrip())
        head, *tail = window.rsplit(None, 1)
        return least + len(head) if tail else 0

    def first(self, text: str, after: int, until: int) -> int:
        """See `Seams.first`."""
        found = _BLANK.search(text, after + 1, until + 1)
        return found.start() if found and not text[found.start() - 1].isspace() else 0


STOCK_KINDS: tuple[Seams, ...] = (LiteralSeams("\n\n"), LiteralSeams("\n"), SentenceSeams(), WordSeams())
"""Paragraphs, lines, sentences, words."""
