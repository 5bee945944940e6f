"""Where words begin and end, in every script; and which ways of writing are the same.

Python's `re` has no Unicode properties, and `regex`, which has them, finds words at a third of the speed. So the
classes are enumerated once, when the first text that is not ASCII comes by.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

# Scripts whose words no space parts: the Unicode line breaking class SA (UAX #14: Thai, Lao, Myanmar, Khmer, Tai …),
# and Han, Kana, Bopomofo and Hangul, of which Lucene's CJKAnalyzer too makes n-grams (Korean glues particles to nouns).
_UNSPACED_BLOCKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3021-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf\uac00-\ud7ff\uf900-\ufaff"
)
# Beyond U+FFFF by whole planes and blocks: `re` tries such ranges one after the other, so few of them make it fast.
_ASTRAL_UNSPACED = "\U00011700-\U0001174f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
_ASTRAL_WORDS = "\U00010000-\U000116ff\U00011750-\U0001afef\U0001b170-\U0001cfff\U0001df00-\U0001efff"
_BASIC_PLANE = range(0x10000)
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED_BLOCKS}{_ASTRAL_UNSPACED}]")

# A word, or an identifier: words that single dots, hyphens, apostrophes or at signs join, with the sigil of `#tag`,
# `@name`, `.NET` before or the sign of `C++`, `C#` behind. The joins are bounded: `re` keeps a frame for each.
_WORD = r"(?:[#@.](?=[^\W\d]))?[{w}]+(?:[.'@\-][{w}]+){{0,15}}(?:\+\+|#(?![{w}]))?"
ASCII_WORD = re.compile(_WORD.format(w=r"A-Za-z0-9_"))

_HEBREW_AND_ARABIC_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
)
# Soft hyphen, joiners, direction marks, byte order mark, variation selectors: inside words, and not part of them.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+"
)
_OPTIONAL = re.compile(f"[\u0640{_HEBREW_AND_ARABIC_POINTS}]+")  # vowel points and the stretching kashida
_APOSTROPHE = re.compile("[\u02bc\u2018\u2019\u05f3\u05f4]")
_HYPHEN = re.compile("\u2010")


_TYPOGRAPHY = (
    *((sign, " ") for sign in "\u00a0\u202f\u2009·¶§©®«»−–—“”„•→"),
    ("’", "'"),
    ("‘", "'"),
    ("…", "..."),
    ("\u00ad", ""),
)


def _spans(code_points: Iterable[int]) -> str:
    """Write ascending code points as the inside of a character class."""
    spans: list[list[int]] = []
    for point in code_points:
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in spans)


@cache
def _marks() -> str:
    """Write the combining marks (general category M) as the inside of a character class."""
    return _spans(point for point in _BASIC_PLANE if unicodedata.category(chr(point))[0] == "M")


@cache
def unicode_word() -> re.Pattern[str]:
    """Compile the pattern of a word in any script, or of a run of characters of an unspaced script."""
    letters = re.compile(rf"[\w{_marks()}]")
    points = [point for point in _BASIC_PLANE if letters.match(chr(point))]
    unspaced = {point for point in points if _UNSPACED_CHAR.match(chr(point))}
    word = _WORD.format(w=_spans(point for point in points if point not in unspaced) + _ASTRAL_WORDS)
    return re.compile(f"{word}|[{_spans(sorted(unspaced))}{_ASTRAL_UNSPACED}]+")


@cache
def _mark_run() -> re.Pattern[str]:
    # Beyond general category M, only U+FF9E and U+FF9F become marks under NFKC. The class stands twice, because a
    # pattern that begins with one is searched for at many times the speed of one that begins with a group.
    mark = f"[{_marks()}\uff9e\uff9f]"
    return re.compile(f"{mark}{mark}{{30,}}")


@cache
def _cluster() -> re.Pattern[str]:
    return re.compile(f".[{_marks()}]*", re.DOTALL)


def normalise(text: str) -> str:
    """Bring text into the form in which equal words are equal strings, letter case aside.

    NFKC; without invisible characters, Hebrew and Arabic vowel points and kashida; one kind of apostrophe and hyphen.
    """
    text = _INVISIBLE.sub("", text)
    # NFKC sorts each run of marks by insertion, quadratic in its length; 30 are what the Stream-Safe Text Format
    # (UAX #15, section 13) allows.
    text = _mark_run().sub(lambda run: run[0][:30], text)
    text = _OPTIONAL.sub("", unicodedata.normalize("NFKC", text))
    return _HYPHEN.sub("-", _APOSTROPHE.sub("'", text))


def plain_typography(text: str) -> str:
    """Write the commonest signs beyond ASCII as `normalise` or the word pattern would take them anyhow.

    English text is rarely all ASCII, and rarely has more than these; without them it takes the quick way.
    """
    for sign, plain in _TYPOGRAPHY:
        if sign in text:
            text = text.replace(sign, plain)
    return text


def is_unspaced(word: str) -> bool:
    """Tell whether a match of `unicode_word` is a run of an unspaced script."""
    return _UNSPACED_CHAR.match(word) is not None


def clusters(run: str) -> list[str]:
    """Cut a run into characters, each with the marks that stand on it."""
    return _cluster().findall(run)
