"""One request to an embeddings endpoint with its retries, as steps for a blocking and for an async caller."""

import base64
import binascii
import email.utils
import random
import re
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import httpx
import numpy as np

from kb_core.embedders.openai_limits import cut_to_bytes
from kb_core.errors import EmbedderError, EmbedderUnavailableError

_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_CONCERNS_LENGTH = re.compile(
    r"context length|too long|too many tokens|max\w* (input )?(tokens|length)|token limit", re.IGNORECASE
)
_CONCERNS_ENCODING = re.compile(r"encoding_format|base64", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Send(NamedTuple):
    """Post this JSON; answer with the response, or with the `httpx.TransportError`."""

    body: dict[str, Any]


class Wait(NamedTuple):
    """Sleep for so many seconds; answer with None."""

    seconds: float


Answer: TypeAlias = httpx.Response | httpx.TransportError | None
Steps: TypeAlias = Generator[Send | Wait, Answer, list[Any]]


@dataclass(frozen=True)
class RetryPolicy:
    """How long to go on.

    Exponential back-off with jitter, so that callers who failed together do not come back together (Brooker 2015,
    "Exponential Backoff And Jitter", AWS Architecture Blog). A server's own Retry-After is waited out in full.

    Attributes:
        max_retries: After the first try.
        first_wait_s: Before the first retry; doubles with each.
        max_wait_s: The largest wait that is our own choice.
        budget_s: Of waiting for one request in total; a Retry-After that does not fit ends it at once.
    """

    max_retries: int = 8
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    budget_s: float = 300.0
    jitter: random.Random = field(default_factory=random.Random, repr=False)

    def wait_s(self, n_retries: int, response: httpx.Response | None) -> float:
        """Give the seconds to wait before retry number `n_retries`, 0 for the first."""
        asked = None if response is None else retry_after_s(response)
        if asked is not None:
            return asked
        longest: float = min(self.max_wait_s, self.first_wait_s * 2**n_retries)
        return longest * self.jitter.uniform(0.5, 1.0)


def retry_after_s(response: httpx.Response) -> float | None:
    """Read Retry-After, seconds or a date (RFC 9110, 10.2.3), or OpenAI's retry-after-ms; None without a valid one."""
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = response.headers.get(header, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) / unit
    try:
        date = email.utils.parsedate_to_datetime(response.headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, date.timestamp() - time.time())


class Exchange:
    """The requests of one embedder.

    Attributes:
        provider: Name for messages.
        policy: See `RetryPolicy`.
        encoding: "base64", a third of the size, until a server says that it knows only "float".
    """

    def __init__(self, provider: str, policy: RetryPolicy) -> None:
        self.provider = provider
        self.policy = policy
        self.encoding = "base64"

    def steps(self, texts: list[str], parameters: dict[str, Any], where: str) -> Steps:
        """Embed one batch, within the limits: yields what to do, returns the vectors in order, unchecked.

        Args:
            texts: At least one.
            parameters: Of the body, beside the input and the encoding.
            where: For messages, e.g. "batch 2 of 5".

        Raises:
            EmbedderUnavailableError: The service cannot be reached or refuses us, also after the retries.
            EmbedderError: It refuses the request or answers with something else than the vectors. Neither message holds
                any text that the server wrote: it might quote the key or a document.
        """
        n_retries, waited_s = 0, 0.0
        while True:
            encoding = self.encoding
            answer = yield Send({**parameters, "input": texts, "encoding_format": encoding})
            if isinstance(answer, httpx.Response) and answer.status_code < 300:
                return self._vectors(answer, len(texts), where)
            response = answer if isinstance(answer, httpx.Response) else None
            if response is not None and not _is_passing(response):
                shorter = [cut_to_bytes(text) for text in texts]
                if encoding == "base64" and _CONCERNS_ENCODING.search(response.text):
                    self.encoding = "float"
                elif _CONCERNS_LENGTH.search(response.text) and shorter != texts:
                    texts = shorter
                else:
                    raise self._refusal(response, where)
                continue
            seconds = self.policy.wait_s(n_retries, response)
            if n_retries == self.policy.max_retries or waited_s + seconds > self.policy.budget_s:
                raise self._exhausted(answer, n_retries, seconds, where)
            yield Wait(seconds)
            n_retries, waited_s = n_retries + 1, waited_s + seconds

    def _refusal(self, response: httpx.Response, where: str) -> EmbedderError:
        said = f"{response.status_code}{_code_of(response)}"
        if response.status_code in {401, 403}:
            return EmbedderUnavailableError(f"{self.provider} refused the API key: {said} ({where})")
        if response.status_code == 429:
            return EmbedderUnavailableError(f"{self.provider} has no quota left: {said} ({where})")
        return EmbedderError(f"{self.provider} refused the request: {said} ({where})")

    def _exhausted(self, answer: Answer, n_retries: int, seconds: float, where: str) -> EmbedderError:
        if isinstance(answer, httpx.Response):
            cause = f"answered {answer.status_code}{_code_of(answer)}"
        else:
            cause = f"cannot be reached: {type(answer).__name__}"
        return EmbedderUnavailableError(
            f"{self.provider} {cause}, after {n_retries} retries; the next would wait {seconds:.0f} s of a budget of "
            f"{self.policy.budget_s:.0f} s for {self.policy.max_retries} retries ({where})"
        )

    def _vectors(self, response: httpx.Response, n_texts: int, where: str) -> list[Any]:
        try:
            data = response.json()["data"]
            rows = [row["embedding"] for row in data]
            indices = [int(row.get("index", position)) for position, row in enumerate(data)]
            vectors = [_decode(row) for row in rows]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EmbedderError(
                f"{self.provider} answered {response.status_code} without embeddings{_code_of(response)}: "
                f"{type(error).__name__} ({where})"
            ) from None
        if len(vectors) != n_texts:
            raise EmbedderError(f"{self.provider} returned {len(vectors)} vectors for {n_texts} texts ({where})")
        if sorted(indices) != list(range(n_texts)):
            raise EmbedderError(f"{self.provider} numbered its {n_texts} vectors wrongly ({where})")
        return [vector for _, vector in sorted(zip(indices, vectors, strict=True), key=lambda pair: pair[0])]


def _decode(embedding: Any) -> Any:
    """Read a vector: base64 of little-endian float32, or a list from a server that ignores what was asked for."""
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _is_passing(response: httpx.Response) -> bool:
    """Tell a state that passes from one that stays; an empty account answers 429 too, and stays empty."""
    return response.status_code in _RETRIED and "insufficient_quota" not in _code_of(response)


def _code_of(response: httpx.Response) -> str:
    """Give the error's code or type where it is an identifier; its message may quote anything."""
    try:
        error = response.json()["error"]
        found = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return f" {found}" if isinstance(found, str) and _IDENTIFIER.fullmatch(found) else ""
