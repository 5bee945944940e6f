"""Hashed words and character n-grams: always there, knows spelling, knows no meaning."""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kb_core.embedders.vectors import DistinctTexts, check_query, fingerprint_of
from kb_core.protocols import Vectors

_GRAM_SIZES = (3, 4, 5)

# Kana, Han and their compatibility forms run without spaces, so a run is no word.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(rf"(?P<cjk>[{_CJK}]+)|[^\W{_CJK}]+")

_MAX_WORD_CHARS = 64
"""Of a longer run (base64, say) only the start is looked at."""

Features = tuple[NDArray[np.intp], NDArray[np.float64]]


class HashingEmbedder:
    """Signed feature hashing of words and of their character n-grams; the last resort.

    A word is itself and the bag of its 3- to 5-grams with its ends marked (Bojanowski et al. 2017, "Enriching Word
    Vectors with Subword Information"), each hashed to one dimension and a sign, so that collisions cancel out on
    average (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning"). A word counts 1 + ln(tf),
    and less when it has fewer than 6 letters, since frequent words are short (Zipf 1935). The vector of a text depends
    on it alone: not on the hash seed, the machine, or other texts.

    Args:
        dimension: 16 or more; fewer means more collisions.

    Raises:
        ValueError: `dimension` is out of range.
    """

    default_alpha = 0.1
    """Where hybrid search is no worse than BM25 alone on Cranfield, MEDLARS and XQuAD; from 0.2 on Cranfield loses."""

    n_truncated = 0

    def __init__(self, dimension: int = 512) -> None:
        if type(dimension) is not int or dimension < 16:
            raise ValueError(f"dimension must be an int of 16 or more, got {dimension!r}")
        self.dimension = dimension

    @property
    def fingerprint(self) -> str:
        """See `Embedder`."""
        return fingerprint_of(type(self).__name__, model="words+3-5grams", dimension=self.dimension)

    def config(self) -> dict[str, Any]:
        """Give all that `from_config` needs, JSON-safe."""
        return {"class": type(self).__name__, "dimension": self.dimension}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the embedder that `config` describes."""
        return cls(config["dimension"])

    def embed_documents(self, texts: list[str]) -> Vectors:
        """See `Embedder.embed_documents`. A text without any letter or digit gives a zero row."""
        distinct = DistinctTexts(texts)
        rows = np.zeros((len(distinct.texts), self.dimension))
        for row, text in zip(rows, distinct.texts, strict=True):
            counts = Counter(_words(text))
            if counts:
                features = [_features(word, self.dimension) for word in counts]
                weights = [values * (1 + math.log(n)) for (_, values), n in zip(features, counts.values(), strict=True)]
                indices = np.concatenate([indices for indices, _ in features])
                row[:] = np.bincount(indices, np.concatenate(weights), minlength=self.dimension)
        vectors = distinct.check(rows, provider=type(self).__name__, dimension=self.dimension)
        return distinct.spread(vectors, lambda: self.dimension)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder.embed_query`."""
        return np.asarray(self.embed_documents([check_query(text)])[0], np.float32)


def _words(text: str) -> Iterator[str]:
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = run[0]
        if run["cjk"]:
            yield from word
            yield from (word[i : i + 2] for i in range(len(word) - 1))
        else:
            yield word[:_MAX_WORD_CHARS]


@lru_cache(maxsize=1 << 16)
def _features(word: str, dimension: int) -> Features:
    """Hash a word and its n-grams: the dimensions, and what each adds, the n-grams together as much as 1 word."""
    marked = f"<{word}>"
    grams = [marked[i : i + n] for n in _GRAM_SIZES for i in range(len(marked) - n + 1)]
    weight = min(1.0, len(word) / 6)
    features = [(f"w{word}", 0.5 * weight), *((f"g{gram}", weight / math.sqrt(len(grams))) for gram in grams)]
    indices = np.empty(len(features), np.intp)
    values = np.empty(len(features))
    for i, (feature, value) in enumerate(features):
        # blake2b, since hash() differs from process to process.
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
        indices[i] = (digest >> 1) % dimension
        values[i] = value if digest & 1 else -value
    return indices, values
