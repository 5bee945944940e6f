"""Word vectors that ship inside a wheel: meaning without a download, a key or a neural network at query time."""

import importlib.util
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from kb_core.embedders.vectors import DistinctTexts, check_query, fingerprint_of
from kb_core.errors import EmbedderUnavailableError
from kb_core.protocols import Vectors

_PACKAGE = "wordllama"
_MODEL = "l2_supercat_256"
_WEIGHTS = f"weights/{_MODEL}.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_DIMENSION = 256

# Texts tokenised at once: enough to keep the tokenizer's threads busy, few enough for the encodings to stay small.
_BATCH_SIZE = 1024


class _Table(NamedTuple):
    tokenizer: Any
    vectors: Vectors  # (n_tokens, 256)


class StaticEmbedder:
    """The mean of the token vectors of WordLlama (Miller 2024, "WordLlama", l2_supercat), 256 dimensions.

    Its files are read straight from the folder of the installed package `wordllama`, which is never imported: that
    takes a second, sets up logging for the whole process, and would look for the model on the network. There is no
    input limit.

    Token vectors count alike: weighting them by frequency (Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for
    Sentence Embeddings") was tried with ranks for frequencies and brought nothing; WordLlama was trained with the mean.

    Raises:
        EmbedderUnavailableError: The package, or one of the files in it, is not there; raised by `load`.
    """

    default_alpha = 0.3
    """Where nDCG@10 of hybrid search is above that of either matcher on Cranfield, MEDLARS and XQuAD (0.2 to 0.4)."""

    dimension = _DIMENSION
    n_truncated = 0

    def __init__(self) -> None:
        self._table: _Table | None = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """See `Embedder`."""
        return fingerprint_of(type(self).__name__, model=_MODEL, dimension=_DIMENSION)

    def config(self) -> dict[str, Any]:
        """Give all that `from_config` needs, JSON-safe."""
        return {"class": type(self).__name__, "model": _MODEL, "dimension": _DIMENSION}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the embedder that `config` describes.

        Raises:
            EmbedderUnavailableError: It names another model than this release has.
        """
        if config.get("model", _MODEL) != _MODEL:
            raise EmbedderUnavailableError(f"StaticEmbedder has the model {_MODEL!r}, not {config['model']!r}")
        return cls()

    def embed_documents(self, texts: list[str]) -> Vectors:
        """See `Embedder.embed_documents`. A text without any token gives a zero row."""
        distinct = DistinctTexts(texts)
        table = self.load()
        means = np.zeros((len(distinct.texts), _DIMENSION), np.float32)
        for start in range(0, len(distinct.texts), _BATCH_SIZE):
            batch = distinct.texts[start : start + _BATCH_SIZE]
            for row, encoding in enumerate(table.tokenizer.encode_batch(batch, add_special_tokens=False), start):
                ids = np.asarray(encoding.ids)
                # A token beyond the table counts as its last row, as in wordllama itself.
                means[row] = table.vectors[np.minimum(ids, len(table.vectors) - 1)].mean(axis=0) if len(ids) else 0
        vectors = distinct.check(means, provider=type(self).__name__, dimension=_DIMENSION)
        return distinct.spread(vectors, lambda: _DIMENSION)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder.embed_query`."""
        return np.asarray(self.embed_documents([check_query(text)])[0], np.float32)

    def load(self) -> _Table:
        """Read the tokenizer and the vectors now; later calls give the same ones."""
        with self._lock:
            if self._table is None:
                self._table = _read_table(_find_package())
            return self._table


def _find_package() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if all((Path(folder) / file).is_file() for file in (_WEIGHTS, _TOKENIZER)):
            return Path(folder)
    state = "not installed" if spec is None else f"installed without {_WEIGHTS} or {_TOKENIZER}"
    raise EmbedderUnavailableError(
        f"StaticEmbedder reads the package {_PACKAGE!r}, which is {state}; pip install {_PACKAGE}"
    )


def _read_table(folder: Path) -> _Table:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        with safe_open(str(folder / _WEIGHTS), framework="np") as file:
            vectors = file.get_tensor("embedding.weight").astype(np.float32)
    except Exception as error:
        raise EmbedderUnavailableError(
            f"the word vectors of the package {_PACKAGE!r} cannot be read ({type(error).__name__}: {error}); "
            f"pip install --force-reinstall {_PACKAGE}"
        ) from error
    if vectors.ndim != 2 or vectors.shape[1] != _DIMENSION:
        raise EmbedderUnavailableError(f"{_WEIGHTS} must hold {_DIMENSION}-d vectors, got shape {vectors.shape}")
    return _Table(tokenizer, vectors)
