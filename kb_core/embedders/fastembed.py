"""Embedding models that run in this process, through fastembed and onnxruntime."""

import logging
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np

from kb_core.embedders.hub_models import DEFAULT_MODEL, find_model, load_hub_model
from kb_core.embedders.local_models import LocalModel, inspect_directory, load_local_model
from kb_core.embedders.prompts import Prompts, prompts_of
from kb_core.embedders.vectors import DistinctTexts, check_query, check_vectors, fingerprint_of
from kb_core.errors import EmbedderError
from kb_core.protocols import Vectors

logger = logging.getLogger(__name__)

_MAX_THREADS = 16


class _Loaded:
    """What belongs to one process: onnxruntime's threads and a lock that is held do not survive a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.model: Any = None


class FastEmbedEmbedder:
    """An ONNX embedding model of fastembed's registry, or one in a directory of yours.

    The model is loaded at the first text, once a process, so that a process that forks after that is safe. Vectors of
    the same text agree exactly at `batch_size=1`; in larger batches of an int8 model only to a cosine of about 0.99,
    since its quantisation depends on the neighbours.

    Args:
        model: A name in `fastembed.TextEmbedding.list_supported_models()`; a directory is taken as `model_path`. None:
            BAAI/bge-small-en-v1.5. Beside `model_path` it only names the family, for prefixes and pooling.
        model_path: A directory with an ONNX file (`model.onnx`, `model_optimized.onnx`, `onnx/model.onnx`, …),
            `tokenizer.json`, `tokenizer_config.json`, and `config.json` if there is one.
        cache_dir: Where downloaded models lie; None: `FASTEMBED_CACHE_PATH`, else fastembed's temporary folder.
        threads: Cores to use, one text each; None: those that this process may use, 16 at most.
        batch_size: Texts a run of the model. On a CPU 1 is fastest (nothing is padded, activations stay in the cache);
            a GPU wants more, and then gets texts of similar length together.
        query_prefix: Put before each query; None: what the model was trained with, see `kb_core.embedders.prompts`.
        passage_prefix: The same for passages.
        pooling: Of a model in a directory: "mean", "cls" or "last_token"; None: found out from its files.
        dimension: Of its vectors, where it is known; None: found out.

    Raises:
        ValueError: No such model, or a number out of range.
        EmbedderUnavailableError: `model_path` is no directory with a model. Whether a model of the registry can be
            had shows when it is loaded, see `load`.
    """

    default_alpha = 0.7

    def __init__(
        self,
        model: str | None = None,
        model_path: str | Path | None = None,
        *,
        cache_dir: str | Path | None = None,
        threads: int | None = None,
        batch_size: int = 1,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        pooling: str | None = None,
        dimension: int | None = None,
    ) -> None:
        for name, value in (("threads", threads), ("batch_size", batch_size), ("dimension", dimension)):
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be 1 or more, got {value!r}")
        if model is not None and model_path is None and Path(model).expanduser().is_dir():
            model, model_path = None, model
        self._local: LocalModel | None = None
        if model_path is not None:
            self._local = inspect_directory(model_path, name=model, pooling=pooling)
            prompts, known = self._local.prompts, self._local.dimension
        elif pooling is not None:
            raise ValueError(f"pooling is for model_path only, got {pooling!r} for a model of the registry")
        else:
            prompts, known = self._from_registry(model or DEFAULT_MODEL.name, dimension)
        self.model = model if model_path is not None else model or DEFAULT_MODEL.name
        self._cache_dir = None if cache_dir is None else str(cache_dir)
        self._threads = threads
        self._batch_size = batch_size
        self.query_prefix = prompts.query if query_prefix is None else query_prefix
        self.passage_prefix = prompts.passage if passage_prefix is None else passage_prefix
        self._dimension = dimension or known
        self._loaded = _Loaded()
        self.n_truncated = 0

    @staticmethod
    def _from_registry(model: str, dimension: int | None) -> tuple[Prompts, int]:
        """Give prompts and dimension without importing fastembed where they are known already."""
        if model.lower() == DEFAULT_MODEL.name.lower():
            dimension = DEFAULT_MODEL.dimension
        return prompts_of(model), dimension or find_model(model).dimension

    @property
    def dimension(self) -> int:
        """Of the vectors; loads a model in a directory whose config files do not say."""
        if self._dimension is None:
            self._dimension = len(self._run(["dimension"], is_query=True)[0])
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """See `Embedder`. A model in a directory is named by its content, so the directory may move."""
        name = {"model": str(self.model).lower()}
        if self._local is not None:
            name = {"model": f"local:{self._local.content_id}", "pooling": self._local.pooling}
        return fingerprint_of(
            type(self).__name__,
            **name,
            dimension=self.dimension,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
        )

    def config(self) -> dict[str, Any]:
        """Give all that `from_config` needs, JSON-safe."""
        return {
            "class": type(self).__name__,
            "model": self.model,
            "model_path": None if self._local is None else str(self._local.directory),
            "pooling": None if self._local is None else self._local.pooling,
            "cache_dir": self._cache_dir,
            "threads": self._threads,
            "batch_size": self._batch_size,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
            "dimension": self.dimension,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the embedder that `config` describes, without importing fastembed."""
        return cls(**{key: value for key, value in config.items() if key != "class"})

    def embed_documents(self, texts: list[str]) -> Vectors:
        """See `Embedder.embed_documents`. Counts the texts that the model cuts off in `n_truncated`."""
        distinct = DistinctTexts(texts)
        # Longest first: neighbours in a batch are alike, and no thread ends with the longest one alone.
        order = sorted(range(len(distinct.texts)), key=lambda row: -len(distinct.texts[row]))
        prefixed = [self.passage_prefix + distinct.texts[row] for row in order]
        rows: list[Any] = [None] * len(order)
        for row, vector in zip(order, self._run(prefixed) if prefixed else [], strict=True):
            rows[row] = vector
        vectors = distinct.check(rows, provider=type(self).__name__, dimension=self._dimension)
        return distinct.spread(vectors, lambda: self.dimension)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder.embed_query`."""
        text = check_query(text)
        if not text.strip():
            return np.zeros(self.dimension, np.float32)
        vectors = self._run([self.query_prefix + text], is_query=True)
        return np.asarray(
            check_vectors(vectors, 1, provider=type(self).__name__, dimension=self._dimension)[0], np.float32
        )

    def load(self) -> Any:
        """Load the model now, from the cache, its directory or the hub; later calls give the same one.

        Returns:
            The `fastembed.TextEmbedding`.

        Raises:
            EmbedderUnavailableError: It is not there, is damaged, or the hub cannot be reached within seconds.
        """
        if self._loaded.pid != os.getpid():
            self._loaded = _Loaded()
        with self._loaded.lock:
            if self._loaded.model is None:
                self._loaded.model = self._load()
            return self._loaded.model

    def _load(self) -> Any:
        # One thread a session: the cores each take a text of their own, which scales where splitting a matrix does not.
        if self._local is not None:
            return load_local_model(self._local, threads=1)
        is_default = str(self.model).lower() == DEFAULT_MODEL.name.lower()
        model = DEFAULT_MODEL if is_default else find_model(str(self.model))
        return load_hub_model(model, cache_dir=self._cache_dir, threads=1)

    def _run(self, texts: list[str], *, is_query: bool = False) -> list[Any]:
        """Run the model over texts in the order given."""
        model = self.load()
        if not is_query:
            self._count_truncated(model, texts)

        def run(batch: list[str]) -> list[Any]:
            return list(model.query_embed(batch) if is_query else model.passage_embed(batch, batch_size=len(batch)))

        batches = [texts[i : i + self._batch_size] for i in range(0, len(texts), self._batch_size)]
        try:
            if len(batches) == 1:
                return run(batches[0])
            with ThreadPoolExecutor(min(self._threads or _usable_cores(), len(batches))) as pool:
                return [vector for vectors in pool.map(run, batches) for vector in vectors]
        except Exception as error:
            raise EmbedderError(
                f"{type(self).__name__} failed on {len(texts)} texts: {type(error).__name__}: {error}"
            ) from error

    def _count_truncated(self, model: Any, texts: list[str]) -> None:
        """Count texts beyond the input limit; what comes after it is in no vector."""
        tokenizer = getattr(model.model, "tokenizer", None)
        if tokenizer is None or not tokenizer.truncation:
            return
        limit = tokenizer.truncation["max_length"] - tokenizer.num_special_tokens_to_add(is_pair=False)
        # A token is at least one byte, so only these can be too long; few chunks are.
        candidates = [text for text in texts if len(text.encode()) > limit]
        n_found = sum(bool(encoding.overflowing) for encoding in tokenizer.encode_batch(candidates))
        if not n_found:
            return
        with self._loaded.lock:
            is_first = self.n_truncated == 0
            self.n_truncated += n_found
        if is_first:
            logger.warning(
                "%d of %d texts are longer than the %d tokens that %s reads; vector search cannot find what comes "
                "after that. A smaller chunk_size helps.",
                n_found,
                len(texts),
                limit,
                self.model or "the model",
            )


def _usable_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MAX_THREADS)
