"""Embeddings over HTTP, from OpenAI or any server that speaks its protocol."""

import asyncio
import logging
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import numpy as np
from pydantic import SecretStr

from kb_core.embedders.dimension import Dimension
from kb_core.embedders.openai_exchange import Answer, Exchange, RetryPolicy, Send, Steps, Wait
from kb_core.embedders.openai_limits import MAX_INPUT_TOKENS, MAX_INPUTS, batches_of, cut_by_estimate
from kb_core.embedders.vectors import DistinctTexts, check_query, fingerprint_of
from kb_core.errors import EmbedderError, EmbedderUnavailableError
from kb_core.protocols import Vectors

logger = logging.getLogger(__name__)

_OPENAI_URL = "https://api.openai.com/v1"
# https://platform.openai.com/docs/guides/embeddings
_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


class OpenAIEmbedder:
    """The embeddings endpoint of OpenAI, Azure OpenAI (v1), vLLM, Ollama, text-embeddings-inference and their like.

    Requests keep within 2,048 inputs, 300,000 tokens, and 8,191 tokens an input; a longer input is cut there and
    counted in `n_truncated`. 429, 5xx and lost connections are tried again, batch by batch, as the server's Retry-After
    says, else after capped exponential back-off; 400, 401 and 403 are not.

    Args:
        model: As the server calls it.
        base_url: Up to the version, e.g. "http://localhost:11434/v1"; None: `OPENAI_BASE_URL`, else OpenAI's.
        api_key: None: `OPENAI_API_KEY`, read at each request. It is in no repr, log, message or config.
        dimensions: Ask for shorter vectors than the model's own, where it can shorten them.
        max_concurrency: Requests under way at once, for each call.
        batch_size: Inputs a request at most, for a server that takes fewer than OpenAI's 2,048.
        timeout: Seconds that a connection or an answer may take.
        retry: How long to go on, see `RetryPolicy`.
        dimension: Of the vectors, where it is known; None: by the model's name, else by embedding one word.

    Raises:
        ValueError: A number out of range; a URL that is not http(s) or holds a user, a query or a fragment.
    """

    default_alpha = 0.7

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        dimensions: int | None = None,
        max_concurrency: int = 4,
        batch_size: int = MAX_INPUTS,
        timeout: float = 60.0,
        retry: RetryPolicy | None = None,
        dimension: int | None = None,
    ) -> None:
        if not 1 <= batch_size <= MAX_INPUTS:
            raise ValueError(f"batch_size must be 1 to {MAX_INPUTS}, got {batch_size}")
        for name, value in (("max_concurrency", max_concurrency), ("dimensions", dimensions), ("timeout", timeout)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, got {value}")
        self.model = model
        self.base_url = _check_url(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL)
        self._key = None if api_key is None else SecretStr(api_key)
        self._dimensions = dimensions
        self._dimension = Dimension(dimensions or dimension or _DIMENSIONS.get(model))
        self._max_concurrency = max_concurrency
        self._batch_size = batch_size
        self._timeout = timeout
        self._exchange = Exchange(f"{type(self).__name__} ({model})", retry or RetryPolicy())
        self._client: tuple[int, httpx.Client] | None = None
        self._context: ssl.SSLContext | bool | None = None
        self._lock = threading.Lock()
        self.n_truncated = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.base_url!r})"

    @property
    def dimension(self) -> int:
        """Of the vectors; embeds one word, once, for a model that is not OpenAI's."""
        if self._dimension.value is None:
            self._embed(DistinctTexts(["dimension"]))
        return self._dimension.value or 0

    @property
    def fingerprint(self) -> str:
        """See `Embedder`. The server is not part of it: one model may be served from several places."""
        return fingerprint_of(type(self).__name__, model=self.model, dimension=self.dimension)

    @property
    def is_fingerprint_known(self) -> bool:
        """Whether `fingerprint` can be told without a request."""
        return self._dimension.value is not None

    def expect_dimension(self, dimension: int) -> None:
        """Take the dimension for granted until the first vector shows another: then that is a mismatch."""
        self._dimension.expect(dimension)

    def config(self) -> dict[str, Any]:
        """Give all that `from_config` needs, JSON-safe, without the key."""
        return {
            "class": type(self).__name__,
            "model": self.model,
            "base_url": self.base_url,
            "dimensions": self._dimensions,
            "max_concurrency": self._max_concurrency,
            "batch_size": self._batch_size,
            "timeout": self._timeout,
            "dimension": self._dimension.value,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the embedder that `config` describes; its key comes from the environment."""
        return cls(**{key: value for key, value in config.items() if key != "class"})

    def embed_documents(self, texts: list[str]) -> Vectors:
        """See `Embedder.embed_documents`."""
        distinct = DistinctTexts(texts)
        return distinct.spread(self._embed(distinct), lambda: self.dimension)

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        """Do as `embed_documents`, without blocking the event loop."""
        distinct = DistinctTexts(texts)
        return distinct.spread(await self._aembed(distinct), lambda: self.dimension)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder.embed_query`."""
        return np.asarray(self.embed_documents([check_query(text)])[0], np.float32)

    async def aembed_query(self, text: str) -> Vectors:
        """Do as `embed_query`, without blocking the event loop."""
        return np.asarray((await self.aembed_documents([check_query(text)]))[0], np.float32)

    def close(self) -> None:
        """Let go of the connections; the next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and client[0] == os.getpid():
            client[1].close()

    def _embed(self, distinct: DistinctTexts) -> Vectors:
        if not distinct.texts:
            return np.zeros((0, 0), np.float32)
        batches = self._batches(distinct.texts)
        headers = self._headers()
        client = self._open_client()
        stop = threading.Event()

        def run(steps: Steps) -> list[Any]:
            answer: Answer = None
            while not stop.is_set():
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return list(end.value)
                except BaseException:
                    stop.set()  # the other batches need not wait for their turn to find out
                    raise
                if isinstance(step, Wait):
                    stop.wait(step.seconds)
                    answer = None
                else:
                    answer = _post(client, self._url, headers, step)
            raise CancelledError

        with ThreadPoolExecutor(min(self._max_concurrency, len(batches))) as pool:
            futures = [pool.submit(run, steps) for steps in batches]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
        return self._collect(distinct, [future.exception() or future.result() for future in futures])

    async def _aembed(self, distinct: DistinctTexts) -> Vectors:
        if not distinct.texts:
            return np.zeros((0, 0), np.float32)
        batches = self._batches(distinct.texts)
        headers = self._headers()
        turn = asyncio.Semaphore(self._max_concurrency)

        async def run(client: httpx.AsyncClient, steps: Steps) -> list[Any]:
            async with turn:
                answer: Answer = None
                while True:
                    try:
                        step = steps.send(answer)
                    except StopIteration as end:
                        return list(end.value)
                    if isinstance(step, Wait):
                        await asyncio.sleep(step.seconds)
                        answer = None
                    else:
                        answer = await _apost(client, self._url, headers, step)

        # A client belongs to one event loop, and an embedder may see several: so one a call.
        async with httpx.AsyncClient(timeout=self._timeout, verify=self._tls()) as client:
            tasks = [asyncio.ensure_future(run(client, steps)) for steps in batches]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
        return self._collect(distinct, results)

    def _collect(self, distinct: DistinctTexts, results: Sequence[list[Any] | BaseException]) -> Vectors:
        """Join what the batches gave, or raise the first real failure and say how much was done."""
        failures = [result for result in results if isinstance(result, BaseException)]
        rows = [row for result in results if not isinstance(result, BaseException) for row in result]
        if failures:
            # Batches that were called off because another one failed have nothing to tell.
            failure = next(
                (f for f in failures if not isinstance(f, CancelledError | asyncio.CancelledError)), failures[0]
            )
            if not isinstance(failure, EmbedderError):
                raise failure
            done = f"; {len(rows)} of {len(distinct.texts)} texts were embedded before that"
            raise type(failure)(f"{failure}{done}") from None
        vectors = distinct.check(rows, provider=self._exchange.provider, dimension=self._dimension.required)
        self._dimension.learn(int(vectors.shape[1]), self._exchange.provider)
        return vectors

    def _batches(self, texts: list[str]) -> list[Steps]:
        """Cut what is too long, split within the limits, and prepare the requests."""
        cut = [cut_by_estimate(text) for text in texts]
        self._count_truncated(sum(a is not b for a, b in zip(cut, texts, strict=True)), len(texts))
        parameters: dict[str, Any] = {"model": self.model}
        if self._dimensions is not None:
            parameters["dimensions"] = self._dimensions
        batches = list(batches_of(cut, max_inputs=self._batch_size))
        return [
            self._exchange.steps(batch, parameters, f"batch {number} of {len(batches)}")
            for number, batch in enumerate(batches, 1)
        ]

    def _count_truncated(self, n_found: int, n_texts: int) -> None:
        if not n_found:
            return
        with self._lock:
            is_first = self.n_truncated == 0
            self.n_truncated += n_found
        if is_first:
            logger.warning(
                "%d of %d texts were cut to about %d tokens, the most that %s takes; vector search cannot find what "
                "comes after that. A smaller chunk_size helps.",
                n_found,
                n_texts,
                MAX_INPUT_TOKENS,
                self._exchange.provider,
            )

    @property
    def _url(self) -> str:
        return f"{self.base_url}/embeddings"

    def _headers(self) -> dict[str, str]:
        key = self._key.get_secret_value() if self._key is not None else os.environ.get("OPENAI_API_KEY", "")
        key = key.strip()
        if not key and self.base_url == _OPENAI_URL:
            raise EmbedderUnavailableError(
                f"{self._exchange.provider} needs an API key: set OPENAI_API_KEY or api_key="
            )
        if not (key.isascii() and key.isprintable()):
            raise EmbedderUnavailableError("the API key must be printable ASCII, as a header is; it is not shown here")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _open_client(self) -> httpx.Client:
        """Give this process's client: a connection must not be shared across a fork."""
        tls = self._tls()
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                self._client = (os.getpid(), httpx.Client(timeout=self._timeout, verify=tls))
            return self._client[1]

    def _tls(self) -> ssl.SSLContext | bool:
        """Give the certificates, read once: every client would spend 20 ms on them, also one that needs none."""
        with self._lock:
            if self._context is None:
                self._context = httpx.create_ssl_context() if self.base_url.startswith("https:") else False
            return self._context


def _check_url(url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"base_url must start with http:// or https:// and name a host, got {parts.scheme or 'no scheme'}"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        # It is recorded with the knowledge base and shown in errors, so it must not carry secrets.
        raise ValueError(f"base_url must have no user, query or fragment (host {parts.hostname}); the key is api_key=")
    return url.strip().rstrip("/")


def _post(client: httpx.Client, url: str, headers: dict[str, str], step: Send) -> Answer:
    try:
        return client.post(url, headers=headers, json=step.body)
    except httpx.TransportError as error:
        return error


async def _apost(client: httpx.AsyncClient, url: str, headers: dict[str, str], step: Send) -> Answer:
    try:
        return await client.post(url, headers=headers, json=step.body)
    except httpx.TransportError as error:
        return error
