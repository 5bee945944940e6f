"""The analyzer: words of any script, identifiers whole and in parts, stems."""

import hashlib
import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from kb_core.analysis.characters import ASCII_WORD, clusters, is_unspaced, normalise, plain_typography, unicode_word
from kb_core.analysis.stop_words import STOP_WORDS

_VERSION = 1
"""Raise it with every change of what `terms` returns: stores that were built with another one rebuild themselves."""

_SNOWBALL_NAMES = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}

_MAX_IDENTIFIER_CHARS = 256
"""A longer word is data, not a name: it becomes one term, its head and a hash of the whole."""

_MAX_CACHED_WORDS = 1 << 18
_MAX_CACHED_CHARS = 32

# Over the shape of a word, see `_shape`: `HTTP|Server|2`, `get|User|Name`, `utf|8`.
_PIECE = re.compile("A+(?!a)|A?a+|0+")
_NUMBER = re.compile("0+")
_SEGMENT = re.compile("(A?a++(?![A0])|A++(?![a0])|0++(?![Aa]))|[Aa0]+")  # group 1: all of one piece
_ASCII_SHAPES = str.maketrans(
    string.ascii_uppercase + string.ascii_lowercase + string.digits, "A" * 26 + "a" * 26 + "0" * 10
)
# Where an identifier is joined into one spelling: at hyphens and underscores, but not between digits (`2024-05`).
_JOINT = re.compile(r"(?<=[^\W\d_])[-_]+|[-_]+(?=[^\W\d_])|^_+|_+$")
_DOTTED_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")


class Analyzer:
    """Turns text into the terms that BM25 counts, the same for chunks and for queries.

    * Unicode: NFKC and case folding, so composed and decomposed, full-width and upper-case forms are one.
    * Words of any script, combining marks inside; Hebrew and Arabic without vowel points.
    * Scripts without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese …): characters and pairs of them.
    * Identifiers whole and in parts: `getUserName`, `get_user_name` and `get-user-name` all give `getusername`, `get`,
      `user`, `name`; `foo.bar`, `jane@example.com`, `v1.2.3`, `20.04` keep their signs in the whole; `C++`, `C#`,
      `.NET`, `#tag`, `@name` stand beside `c`, `net`, `tag`, `name`.
    * Stop words dropped and words stemmed (Snowball; Porter, 1980 and 2001) by the rules of `language`. A whole that
      has more than letters in it is never stemmed.

    Linear in the length of any text. Safe to use from several threads. For an analysis of your own, override `terms`
    and `fingerprint`.

    Args:
        language: ISO 639-1 code: ar, da, de, el, en, es, fi, fr, hu, it, nl, no, pt, ro, ru, sv or tr. None: no stop
            words, no stemming, which also suits every other language.

    Raises:
        ValueError: The language is none of those.
    """

    def __init__(self, language: str | None = "en") -> None:
        if language is not None and language not in _SNOWBALL_NAMES:
            raise ValueError(
                f"language must be one of {', '.join(_SNOWBALL_NAMES)}, or None for no stemming and no stop words; "
                f"got {language!r}"
            )
        self.language = language
        self._stop_words = frozenset(STOP_WORDS[language].split()) if language else frozenset[str]()
        self._stem = _stemmer(language)
        self._cache = _Cache(self._analyse)

    @property
    def fingerprint(self) -> str:
        """Names the mapping from text to terms; equal for analyzers that agree on every text.

        The Unicode tables are Python's own and differ between its releases.
        """
        return f"{_VERSION}-{self.language or 'none'}-unicode{unicodedata.unidata_version}"

    def terms(self, text: str) -> list[str]:
        """Give the terms of a text, in reading order, repeated ones repeated; `[]` where there are none.

        Terms hold no white space and at most a few hundred characters.
        """
        if not text.isascii():
            text = plain_typography(text)
        words = ASCII_WORD.findall(text) if text.isascii() else unicode_word().findall(normalise(text))
        return " ".join(map(self._cache.__getitem__, words)).split()

    def _analyse(self, word: str) -> tuple[str, ...]:
        if is_unspaced(word):
            return tuple(_ngrams(word))
        if len(word) > _MAX_IDENTIFIER_CHARS:
            return (_abridged(self._fold(word)),)
        folded = self._fold(word)
        if folded in self._stop_words:  # a contraction like `don't` too
            return ()
        if word.isalpha() and (word.islower() or word.isupper() or word.istitle()):
            return (self._stem(folded),)
        return tuple(self._apostrophed(word) if "'" in word else self._identifier(word, folded))

    def _identifier(self, word: str, folded: str) -> Iterator[str]:
        """Give the terms of a word that has signs, digits or capitals inside."""
        if _DOTTED_INITIALS.fullmatch(folded):  # u.s.a
            yield self._stem(folded.replace(".", ""))
            return
        whole = folded if folded.isalnum() else _JOINT.sub("", folded) or folded
        yield self._stem(whole) if whole.isalpha() else whole
        for part in map(self._fold, _parts(word)):
            if part != whole and part not in self._stop_words:
                yield self._stem(part)

    def _apostrophed(self, word: str) -> Iterator[str]:
        """Give the terms of a word with apostrophes: a possessive, an elision (`l'avion`) or a name (`O'Reilly`)."""
        segments = [segment for segment in word.removesuffix("'s").removesuffix("'S").split("'") if segment]
        kept = [segment for segment in segments if self._fold(segment) not in self._stop_words]
        if len(kept) == len(segments) > 1:
            yield self._stem(self._fold("".join(segments)))
        for segment in kept:
            yield from self._analyse(segment)

    def _fold(self, word: str) -> str:
        if self.language == "tr":
            word = word.replace("I", "ı").replace("İ", "i")
        if word.isascii():
            return word.lower()
        # Case folding can undo NFKC (Unicode 3.13, NFKC_Casefold); İ folds to i and a dot above.
        return unicodedata.normalize("NFKC", word.casefold()).replace("i\u0307", "i")


class _Cache(dict[str, str]):
    """The terms of words seen before, with a space between: text repeats its words, so most cost one look-up."""

    def __init__(self, analyse: Callable[[str], tuple[str, ...]]) -> None:
        super().__init__()
        self._analyse = analyse

    def __missing__(self, word: str) -> str:
        terms = " ".join(self._analyse(word))
        if len(word) <= _MAX_CACHED_CHARS:
            if len(self) >= _MAX_CACHED_WORDS:
                self.clear()
            self[word] = terms
        return terms


@cache
def _stemmer(language: str | None) -> Callable[[str], str]:
    if language is None:
        return str
    from py_rust_stemmers import SnowballStemmer

    stem: Callable[[str], str] = SnowballStemmer(_SNOWBALL_NAMES[language]).stem_word
    return stem


def _shape(word: str) -> str:
    """Write each character as A (upper case), a (other letter or mark), 0 (digit) or itself (sign)."""
    if word.isascii():
        return word.translate(_ASCII_SHAPES)
    return "".join(
        "A" if char.isupper() else "0" if char.isdigit() else char if char in "._-'@#+" else "a" for char in word
    )


def _parts(word: str) -> Iterator[str]:
    """Cut an identifier at its signs, at its inner capitals, and between letters and a number."""
    shape = _shape(word)
    for segment in _SEGMENT.finditer(shape):
        start, end = segment.span()
        # More than one number among letters is a hash or a serial number, whose splinters mean nothing.
        if segment[1] or len(_NUMBER.findall(shape, start, end)) > 1:
            yield word[start:end]
        else:
            for piece in _PIECE.finditer(shape, start, end):
                yield word[piece.start() : piece.end()]


def _abridged(word: str) -> str:
    return word[:64] + "~" + hashlib.blake2b(word.encode(), digest_size=8).hexdigest()


def _ngrams(run: str) -> Iterator[str]:
    """Give the characters of a run and each pair of neighbours."""
    characters = [cluster[:8] for cluster in clusters(run)]
    yield from characters
    for first, second in pairwise(characters):
        yield first + second
