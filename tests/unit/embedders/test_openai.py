import asyncio
import base64
import email.utils
import json
import logging
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import pytest

from kb_core.embedders import InvalidVectorError, OpenAIEmbedder, RetryPolicy, embedder_from_config
from kb_core.embedders.openai_exchange import retry_after_s
from kb_core.embedders.openai_limits import MAX_INPUT_TOKENS, batches_of, cut_by_estimate, cut_to_bytes
from kb_core.errors import EmbedderError, EmbedderMismatchError, EmbedderUnavailableError

KEY = "sk-secret-0123456789"
QUICK = RetryPolicy(first_wait_s=0.001, max_wait_s=0.01)
CJK = re.compile(r"[\u4e00-\u9fff]")


def count_tokens(text: str) -> int:
    """Count as a service might: a token a CJK character, and one a word."""
    return len(CJK.findall(text)) + len(CJK.sub(" ", text).split())


def vector_of(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)) % 97), 1.0]


class Service:
    """An embeddings endpoint on a free port of this machine, with OpenAI's three limits."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.at: list[float] = []
        self.failures: Callable[[int], tuple[int, dict[str, str], Any] | None] = lambda _: None
        self.spoil: Callable[[list[dict[str, Any]]], Any] = lambda data: {"data": data}
        self.knows_base64 = True
        self.under_way = self.most_under_way = 0
        self.delay = 0.0
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            self.requests.append(body)
            self.at.append(time.monotonic())
            number = len(self.requests)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        time.sleep(self.delay)
        with self.lock:
            self.under_way -= 1
        return self.failures(number) or self.refusal(body) or (200, {}, self.spoil(self.data(body)))

    def refusal(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any] | None:
        counts = [count_tokens(text) for text in body["input"]]
        why = None
        if not all(body["input"]):
            why = "input cannot be an empty string"
        elif len(counts) > 2_048:
            why = f"{len(counts)} inputs"
        elif sum(counts) > 300_000:
            why = f"max 300000 tokens per request, got {sum(counts)}"
        elif max(counts) > 8_191:
            why = "maximum context length is 8192 tokens"
        elif body.get("encoding_format") == "base64" and not self.knows_base64:
            why = "encoding_format base64 is not supported"
        return (400, {}, {"error": {"message": why, "code": "invalid_request"}}) if why else None

    def data(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for index, text in enumerate(body["input"]):
            vector: Any = vector_of(text)
            if body.get("encoding_format") == "base64":
                vector = base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
            rows.append({"index": index, "embedding": vector})
        return rows[::-1]  # the order is not promised, the index is


@pytest.fixture
def service() -> Iterator[Service]:
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            state.keys.append(self.headers["Authorization"])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = state.answer(body) if self.path == "/v1/embeddings" else (404, {}, {})
            payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(payload))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"  # type: ignore[attr-defined]
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def make(service: Service) -> Iterator[Callable[..., OpenAIEmbedder]]:
    made: list[OpenAIEmbedder] = []

    def make(**options: Any) -> OpenAIEmbedder:
        options = {"model": "m", "api_key": KEY, "retry": QUICK, **options}
        made.append(OpenAIEmbedder(base_url=service.url, **options))  # type: ignore[attr-defined]
        return made[-1]

    yield make
    for embedder in made:
        embedder.close()


Make = Callable[..., OpenAIEmbedder]


def expected(texts: list[str]) -> np.ndarray:
    rows = np.array([vector_of(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def both(embedder: OpenAIEmbedder, texts: list[str]) -> list[np.ndarray]:
    return [await asyncio.to_thread(embedder.embed_documents, texts), await embedder.aembed_documents(texts)]


async def test_vectors_come_back_in_order_whatever_the_service_does(make: Make) -> None:
    texts = [f"text number {i} " + "x" * (i % 7) for i in range(50)] + ["", "text number 3 xxx"]
    for vectors in await both(make(batch_size=7), texts):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors[:50], expected(texts[:50]), atol=1e-6)
        assert not vectors[50].any()
        np.testing.assert_array_equal(vectors[51], vectors[3])


async def test_the_limits_of_a_request_are_kept(make: Make, service: Service) -> None:
    texts = [f"{i} " + "word " * 999 for i in range(1_000)]  # 1,000 tokens each: a million, at most 300,000 a request
    vectors = await make().aembed_documents(texts)
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-6)
    assert all(sum(count_tokens(text) for text in body["input"]) <= 300_000 for body in service.requests)
    service.requests.clear()
    make().embed_documents([f"short {i}" for i in range(5_000)])
    assert max(len(body["input"]) for body in service.requests) == 2_048


async def test_a_text_past_the_input_limit_is_cut_counted_and_warned_of(
    make: Make, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = make()
    chinese = "退货期限为三十天" * 1_500  # 12,000 characters
    for vectors in await both(embedder, [chinese, "short"]):
        assert np.isfinite(vectors).all()
    assert [len(body["input"][0]) for body in service.requests] == [MAX_INPUT_TOKENS] * 2
    assert embedder.n_truncated == 2
    assert len([r for r in caplog.records if "1 of 2 texts were cut" in r.getMessage()]) == 1


async def test_a_service_that_counts_more_tokens_than_we_guessed_gets_less(make: Make, service: Service) -> None:
    noise = "!a" * 4_000 + "退" * 400
    too_long = (400, {}, {"error": {"message": "This model's maximum context length is 8192 tokens"}})
    service.failures = lambda _: too_long if len(service.requests[-1]["input"][0].encode()) > 8_191 else None
    for vectors in await both(make(), [noise]):
        assert np.linalg.norm(vectors) == pytest.approx(1)
    assert len(service.requests) == 4


async def test_every_third_answer_being_429_costs_nothing_but_time(make: Make, service: Service) -> None:
    service.failures = lambda n: (429, {"Retry-After": "0.01"}, {}) if n % 3 == 0 else None
    texts = [f"row {i}" for i in range(3_000)]
    for vectors in await both(make(batch_size=100), texts):
        np.testing.assert_allclose(vectors, expected(texts), atol=1e-6)
    sent = [text for n, body in enumerate(service.requests, 1) if n % 3 for text in body["input"]]
    assert sorted(sent) == sorted(texts * 2)  # what was done is never sent again


async def test_retry_after_is_waited_out(make: Make, service: Service) -> None:
    service.failures = lambda n: (429, {"Retry-After": "0.2"}, {}) if n % 2 else None
    await both(make(), ["a"])
    assert service.at[1] - service.at[0] >= 0.2
    assert service.at[3] - service.at[2] >= 0.2


def test_retry_after_is_read_in_each_of_its_forms() -> None:
    def read(**headers: str) -> float | None:
        return retry_after_s(httpx.Response(429, headers={k.replace("_", "-"): v for k, v in headers.items()}))

    assert read(retry_after="7") == 7
    assert read(retry_after_ms="250", retry_after="7") == 0.25
    assert read(retry_after=email.utils.formatdate(time.time() + 60, usegmt=True)) == pytest.approx(60, abs=2)
    assert read(retry_after=email.utils.formatdate(time.time() - 60, usegmt=True)) == 0
    assert read(retry_after="soon") is None
    assert read(retry_after="-1") is None
    assert read() is None


def test_back_off_doubles_up_to_its_cap_with_jitter() -> None:
    policy = RetryPolicy(first_wait_s=1, max_wait_s=10)
    for n_retries, longest in enumerate([1, 2, 4, 8, 10, 10]):
        waits = {policy.wait_s(n_retries, None) for _ in range(50)}
        assert len(waits) > 1
        assert all(longest / 2 <= wait <= longest for wait in waits)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_what_passes_is_tried_again_within_bounds(make: Make, service: Service, status: int) -> None:
    service.failures = lambda _: (status, {}, {})
    embedder = make(retry=RetryPolicy(max_retries=3, first_wait_s=0.001))
    for call in (lambda: asyncio.to_thread(embedder.embed_documents, ["a"]), lambda: embedder.aembed_documents(["a"])):
        with pytest.raises(EmbedderUnavailableError, match=rf"answered {status}, after 3 retries"):
            await call()
    assert len(service.requests) == 8


async def test_a_retry_after_beyond_the_budget_ends_it_at_once(make: Make, service: Service) -> None:
    service.failures = lambda _: (429, {"Retry-After": "86400"}, {})
    with pytest.raises(EmbedderUnavailableError, match="would wait 86400 s of a budget of 300 s"):
        await make().aembed_documents(["a"])
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "error", "message"),
    [
        (400, "invalid_request", EmbedderError, "refused the request: 400 invalid_request"),
        (401, "invalid_api_key", EmbedderUnavailableError, "refused the API key: 401 invalid_api_key"),
        (403, None, EmbedderUnavailableError, "refused the API key: 403"),
        (404, "model_not_found", EmbedderError, "refused the request: 404 model_not_found"),
        (429, "insufficient_quota", EmbedderUnavailableError, "has no quota left: 429 insufficient_quota"),
    ],
)
async def test_what_stays_is_not_tried_again_and_says_no_secret(
    make: Make, service: Service, status: int, code: str | None, error: type[EmbedderError], message: str, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    document = "the confidential merger"
    said = {"error": {"message": f"bad key {KEY} for {document}", "code": code}}
    service.failures = lambda _: (status, {}, said)
    embedder = make()
    for call in (
        lambda: asyncio.to_thread(embedder.embed_documents, [document]),
        lambda: embedder.aembed_documents([document]),
    ):
        with pytest.raises(error, match=message) as caught:
            await call()
        told = "".join(traceback.format_exception(caught.value)) + repr(embedder) + caplog.text + str(embedder.config())
        assert KEY not in told
        assert document not in told
    assert len(service.requests) == 2


async def test_a_failure_says_how_much_was_done(make: Make, service: Service) -> None:
    service.failures = lambda n: (400, {}, {}) if n == 3 else None
    with pytest.raises(EmbedderError, match=r"\(batch 3 of 3\); 20 of 30 texts were embedded before that"):
        await make(batch_size=10, max_concurrency=1).aembed_documents([f"t{i}" for i in range(30)])


async def test_a_missing_vector_is_named_with_service_and_batch(make: Make, service: Service) -> None:
    service.spoil = lambda data: {"data": data[1:]}
    embedder, said = make(), r"OpenAIEmbedder \(m\) returned 3 vectors for 4 texts \(batch 1 of 1\)"
    with pytest.raises(EmbedderError, match=said):
        embedder.embed_documents(["a", "b", "c", "d"])
    with pytest.raises(EmbedderError, match=said):
        await embedder.aembed_documents(["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda _: {"error": {"code": "overloaded"}}, "without embeddings overloaded: KeyError"),
        (lambda _: "<html>proxy</html>", "without embeddings: JSONDecodeError"),
        (lambda _: [1, 2], "without embeddings: TypeError"),
        (lambda data: {"data": [{**row, "index": 0} for row in data]}, "numbered its 2 vectors wrongly"),
        (lambda data: {"data": [{**row, "embedding": "?!"} for row in data]}, "without embeddings: ValueError"),
        (lambda data: {"data": [{**row, "embedding": [1.0] * (1 + row["index"])} for row in data]}, "different dimens"),
    ],
)
def test_an_answer_that_is_no_answer_is_refused(make: Make, service: Service, spoil: Any, message: str) -> None:
    service.spoil = spoil
    with pytest.raises(EmbedderError, match=message):
        make().embed_documents(["a", "b"])


def test_a_vector_that_is_not_finite_names_its_text(make: Make, service: Service) -> None:
    service.spoil = lambda data: {
        "data": [{**row, "embedding": [float("nan"), 1.0] if row["index"] == 1 else [1.0, 1.0]} for row in data]
    }
    with pytest.raises(InvalidVectorError, match="text 3 of 5") as caught:
        make(batch_size=2).embed_documents(["a", "", "a", "b", " "])
    assert caught.value.row == 3


async def test_no_more_requests_are_under_way_than_allowed(make: Make, service: Service) -> None:
    service.delay = 0.02
    await both(make(batch_size=1, max_concurrency=3), [f"t{i}" for i in range(12)])
    assert service.most_under_way == 3


async def test_a_service_without_base64_is_asked_for_floats_from_then_on(make: Make, service: Service) -> None:
    service.knows_base64 = False
    embedder = make()
    for vectors in await both(embedder, ["a", "b"]):
        np.testing.assert_allclose(vectors, expected(["a", "b"]), atol=1e-6)
    assert [body["encoding_format"] for body in service.requests] == ["base64", "float", "float"]


async def test_nothing_is_sent_of_a_list_with_something_else_than_text(make: Make, service: Service) -> None:
    embedder = make()
    for call in (embedder.embed_documents, embedder.aembed_documents):
        with pytest.raises(TypeError, match=r"texts\[0\] is NoneType; nothing was embedded"):
            await call([None, "x"])
    assert service.requests == []


def test_the_key_and_the_address_come_from_the_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", service.url + "/")  # type: ignore[attr-defined]
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    embedder = OpenAIEmbedder("m")
    assert embedder.embed_query("hello").shape == (3,)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert embedder.embed_query("hello again").shape == (3,)
    assert service.keys == [f"Bearer {KEY}", None]
    embedder.close()


def test_openai_without_a_key_is_unavailable_before_anything_is_sent(
    no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(EmbedderUnavailableError, match="set OPENAI_API_KEY or api_key="):
        OpenAIEmbedder().embed_query("hello")
    with pytest.raises(EmbedderUnavailableError, match="must be printable ASCII") as caught:
        OpenAIEmbedder(api_key="sk-\u00e9").embed_query("hello")
    assert "sk-" not in str(caught.value)
    assert no_network == []


def test_a_service_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    embedder = OpenAIEmbedder(
        "m", f"http://127.0.0.1:{port}/v1", KEY, retry=RetryPolicy(max_retries=2, first_wait_s=0.001)
    )
    with pytest.raises(EmbedderUnavailableError, match="cannot be reached: ConnectError, after 2 retries"):
        embedder.embed_documents(["a"])
    embedder.close()


@pytest.mark.parametrize(
    "url", ["ftp://x/v1", "localhost:8000", "http://", "https://me:pass@host/v1", "https://h/v1?key=1"]
)
def test_an_address_that_cannot_be_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url must") as caught:
        OpenAIEmbedder("m", url)
    assert "pass" not in str(caught.value)
    assert "key=1" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": 2049}, {"max_concurrency": 0}, {"dimensions": 0}]
)
def test_numbers_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be .* got"):
        OpenAIEmbedder(**options)  # type: ignore[arg-type]


def test_the_config_has_no_key_and_rebuilds_it_without_a_request(make: Make, service: Service) -> None:
    embedder = make(model="text-embedding-3-large", dimensions=256)
    config = json.loads(json.dumps(embedder.config()))
    assert KEY not in json.dumps(config)
    assert embedder_from_config(config).fingerprint == embedder.fingerprint
    assert OpenAIEmbedder("text-embedding-3-large").fingerprint != embedder.fingerprint
    assert OpenAIEmbedder().dimension == 1536
    assert service.requests == []


def test_shorter_vectors_are_asked_for(make: Make, service: Service) -> None:
    make(dimensions=3).embed_documents(["a"])
    assert service.requests[0]["dimensions"] == 3
    with pytest.raises(EmbedderError, match="must return vectors of dimension 2, got 3"):
        make(dimensions=2).embed_documents(["a"])


def test_an_unknown_model_is_measured_once(make: Make, service: Service) -> None:
    embedder = make()
    assert embedder.dimension == 3
    assert "dimension=3" in embedder.fingerprint
    assert len(service.requests) == 1


def test_a_dimension_taken_for_granted_is_refuted_by_the_first_vector(make: Make, service: Service) -> None:
    embedder = make()
    embedder.expect_dimension(4)
    assert embedder.is_fingerprint_known
    assert "dimension=4" in embedder.fingerprint
    assert service.requests == []
    with pytest.raises(EmbedderMismatchError, match=r"holds vectors of dimension 4, and OpenAIEmbedder \(m\) gives 3"):
        embedder.embed_query("a")


def test_cutting_keeps_the_start_and_whole_characters() -> None:
    english = "the quick brown fox jumps over the lazy dog " * 100
    # 9 words of 3 to 5 letters: 1+2+2+1+2+2+1+2+1 = 14 tokens by the estimate, blanks are free.
    assert cut_by_estimate(english, 14 * 50).count("fox") == 50
    assert cut_by_estimate("short", 5) == "short"
    assert cut_by_estimate("退" * 100, 40) == "退" * 40
    assert cut_to_bytes("退" * 100, 40) == "退" * 13
    assert english.startswith(cut_by_estimate(english, 33))


def test_batches_keep_order_and_limits() -> None:
    texts = ["x" * (i % 9_000) for i in range(1, 5_000)]
    batches = list(batches_of(texts))
    assert [text for batch in batches for text in batch] == texts
    assert all(sum(min(len(text), 8_191) for text in batch) <= 300_000 for batch in batches)
    assert list(batches_of([])) == []
