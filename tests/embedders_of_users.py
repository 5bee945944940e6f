"""Embedders as users write them: real ones, small, and counting what they are asked."""

import hashlib

import numpy as np


class WordEmbedder:
    """One dimension a word, by a stable hash: texts with the same words are close. Counts what it embeds."""

    def __init__(self, dimension: int = 64) -> None:
        self._n_dimensions = dimension
        self.embedded: list[str] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.embedded.extend(texts)
        return [self._vector(text).tolist() for text in texts]

    def _vector(self, text: str) -> np.ndarray:
        vector = np.zeros(self._n_dimensions)
        for word in text.lower().split():
            digest = hashlib.blake2b(word.strip(".,?!").encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "little") % self._n_dimensions] += 1
        return vector


class TableEmbedder:
    """Gives each text the vector that the table says; a text that is not in it, the default."""

    fingerprint = "table"
    default_alpha = 0.7

    def __init__(self, table: dict[str, list[float]], default: list[float]) -> None:
        self._table = table
        self._default = default

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        return np.array([self._table.get(text, self._default) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        return self.embed_documents([text])[0]


class FailingEmbedder(WordEmbedder):
    """Raises as long as it is told to, after so many texts."""

    def __init__(self, *, after: int = 0) -> None:
        super().__init__()
        self.is_failing = True
        self._after = after

    def embed(self, texts: list[str]) -> list[list[float]]:
        if self.is_failing and len(self.embedded) + len(texts) > self._after:
            raise ConnectionError("no answer")
        return super().embed(texts)
