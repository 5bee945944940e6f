"""One walk through one text, from cut to cut."""

import re
from collections.abc import Sequence
from functools import partial

from kb_core.chunking.graphemes import Graphemes, joins_previous
from kb_core.chunking.markdown import fence_around
from kb_core.chunking.outline import Outline
from kb_core.chunking.seams import STOCK_KINDS, HeadingSeams, LiteralSeams, Seams
from kb_core.chunking.spans import Span, skip_blanks, trim_blanks

# A named tuple's own constructor is a Python function, which would take a tenth of all the time here.
_new_span = partial(tuple.__new__, Span)

_FIRST_WORD = re.compile(r"(?<=\s)\S")
_LAST_WORD = re.compile(r"(?s:.*)(?<=\s)(?=\S)")


class Cutter:
    """Cuts one text that is longer than a chunk. The rules stand in `kb_core.chunking`.

    Two offsets carry the walk: `start`, where the chunk starts, and `fresh`, the first non-blank character that no
    chunk holds yet. Time is linear in the characters of all chunks; memory is at most a few copies of the text.
    """

    __slots__ = (
        "_chunk", "_end", "_fences", "_graphemes", "_half", "_kind", "_kinds", "_outline", "_overlap", "_size",
        "_start", "_text",
    )  # fmt: skip

    def __init__(self, text: str, bounds: Span, size: int, overlap: int, separators: Sequence[str] | None) -> None:
        self._text = self._outline = text
        self._start, self._end = bounds
        self._size = size
        self._half = (size + 1) // 2
        self._overlap = overlap
        self._fences: Sequence[Span] = ()
        self._graphemes: Graphemes | None = None
        self._kinds: Sequence[Seams] = STOCK_KINDS
        self._chunk = Span(self._start, self._start)
        self._kind: Seams | None = None
        if separators is not None:
            self._kinds = [LiteralSeams(separator) for separator in separators]
            return
        outline = Outline(text, size)
        self._outline, self._fences = outline.text, outline.fences
        if outline.headings:
            self._kinds = (HeadingSeams(outline.headings), *STOCK_KINDS)

    def spans(self) -> list[Span]:
        """Cut the text."""
        text, outline, size, has_overlap = self._text, self._outline, self._size, self._overlap > 0
        last_start = self._end - size
        found = []
        start = fresh = self._start
        while start < last_start:
            limit = reach = start + size
            while outline[reach].isspace():
                reach += 1
            least = self._first_grapheme_end(start, limit) if has_overlap and fresh == start else fresh
            self._chunk = chunk = self._cut(start, least, limit, reach)
            found.append(chunk)
            fresh = chunk.end
            if fresh == self._end:
                break
            while text[fresh].isspace():
                fresh += 1
            start = self._restart(fresh) if has_overlap else fresh
        else:
            found.append(_new_span((start, self._end)))
        return found

    def _cut(self, start: int, least: int, limit: int, reach: int) -> Span:
        """Choose the end of a chunk, and move its start on if that pays."""
        outline, half_full = self._outline, start + self._half
        former_kind, self._kind = self._kind, None
        for kind in self._kinds:
            seam = kind.last(outline, least, limit, reach)
            if seam > least and (seam >= half_full or self._fits_after(seam, kind, limit)):
                self._kind = kind
                return _new_span((start, seam))
            if kind is former_kind and (chunk := self._with_shorter_share(start, limit, kind)):
                self._kind = kind
                return chunk
        return Span(start, self._cut_off_seam(start, least, limit))

    def _first_grapheme_end(self, start: int, limit: int) -> int:
        """Tell how much a chunk needs to hold besides, for the next one to start in it and behind its start."""
        if self._text[start : start + 2].isascii():
            return start + 1
        boundaries = self._boundaries()
        end = boundaries.first(start + 1, since=start, before=limit)
        return end if end and boundaries.last(limit, since=start) > end else start + 1

    def _with_shorter_share(self, start: int, limit: int, kind: Seams) -> Span | None:
        """Move the start on if that lets the chunk hold the whole unit which the former chunk ended before."""
        furthest = self._chunk.end - 1 + self._size
        stop = self._end if furthest >= self._end else kind.first(self._outline, limit, furthest)
        wanted = stop - self._size
        if wanted <= start:
            return None
        word = _FIRST_WORD.search(self._text, wanted, self._chunk.end)
        moved = word.start() if word else self._restart_off_word(start, wanted)
        return Span(moved, stop) if moved >= wanted else None

    def _fits_after(self, seam: int, kind: Seams, limit: int) -> bool:
        """Tell whether the next chunk can hold the unit behind the seam, and a character before the seam to share."""
        until = (seam - 1 if self._overlap else skip_blanks(self._text, seam)) + self._size
        return until >= self._end or kind.first(self._outline, limit, until) > 0

    def _cut_off_seam(self, start: int, least: int, limit: int) -> int:
        if self._fences and (fence := fence_around(self._fences, limit)):
            # It fits a chunk of its own but not with a character before it: share its first characters instead.
            limit = min(limit, fence.start + self._overlap)
        stop = trim_blanks(self._text, self._boundaries().last(limit, since=start))
        return stop if stop > least else trim_blanks(self._text, limit)

    def _restart(self, fresh: int) -> int:
        """Choose where the next chunk starts: in the tail of this one, so that they overlap."""
        start, stop = self._chunk
        if self._fences and (fence := fence_around(self._fences, stop)):
            return fence.start
        earliest = stop - self._overlap
        if earliest <= start or earliest <= fresh - self._size:
            earliest = max(start, fresh - self._size) + 1
            if earliest >= stop:
                return fresh
        wanted = fresh - self._overlap
        if not earliest <= wanted < stop:
            wanted = earliest if wanted < earliest else stop - 1
        tail = self._text[wanted - 1 : stop]
        if tail[0].isspace():
            return stop - len(tail.lstrip())
        words = tail.split(None, 1)
        return stop - len(words[1]) if len(words) > 1 else self._restart_off_word(earliest, wanted)

    def _restart_off_word(self, earliest: int, wanted: int) -> int:
        """Choose the last word before `wanted`, else the first grapheme from it on, else the last before, else any."""
        text = self._text
        if earliest < wanted and (word := _LAST_WORD.match(text, earliest, wanted)):
            return word.end()
        if text[wanted - 1 : wanted + 1].isascii():
            return wanted
        start, stop = self._chunk
        boundary = self._boundaries().first(wanted, since=start, before=stop)
        if boundary is None:
            boundary = self._boundaries().last(wanted, since=start)
        if boundary >= earliest:
            return boundary
        return next((at for at in range(wanted, stop) if not joins_previous(text[at])), wanted)

    def _boundaries(self) -> Graphemes:
        if self._graphemes is None:
            self._graphemes = Graphemes(self._text, self._size)
        return self._graphemes
