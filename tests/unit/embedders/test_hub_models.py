"""The hub's own client downloads from a server on this machine, in a process of its own: it reads its address once."""

import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPOSITORY = "Qdrant/bge-small-en-v1.5-onnx-Q"
REVISION = "89abcdef0123456789abcdef0123456789abcdef"
SETUP = """
import logging, os, sys, urllib.request
from pathlib import Path
logging.basicConfig(level=logging.WARNING, format="%(message)s")
from kb_core.embedders import FastEmbedEmbedder
from kb_core.errors import EmbedderUnavailableError

def embed():
    try:
        print(FastEmbedEmbedder(cache_dir=sys.argv[1]).embed_documents(["red", "blue"]).shape, flush=True)
    except EmbedderUnavailableError as error:
        print(error, flush=True)

def ask(what):
    return urllib.request.urlopen(os.environ["HF_ENDPOINT"] + what).read().decode()

def onnx():
    return next(Path(sys.argv[1]).glob("models--*/snapshots/*/model_optimized.onnx")).resolve()
"""


def etag_of(content: bytes) -> str:
    return f"{zlib.crc32(content):040x}"


class Hub:
    """As much of the Hugging Face hub's API as fetching one repository takes."""

    def __init__(self, directory: Path) -> None:
        self.files = {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}
        self.n_requests = 0
        self.is_up = True

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path == "/count":
            return 200, {}, str(self.n_requests).encode()
        self.n_requests += 1
        if path == "/down":
            self.is_up = False
            return 200, {}, b""
        if not self.is_up:
            return 503, {}, b""
        api, files = f"/api/models/{REPOSITORY}", f"/{REPOSITORY}/resolve/"
        if path.startswith(f"{api}/tree/"):
            return self._json([self._entry(name) for name in self.files])
        if path == api or path.startswith(f"{api}/revision/"):
            siblings = [{"rfilename": name} for name in self.files]
            return self._json({"id": REPOSITORY, "sha": REVISION, "siblings": siblings})
        if (
            path.startswith(files)
            and (content := self.files.get(path.removeprefix(files).partition("/")[2])) is not None
        ):
            return 200, {"ETag": f'"{etag_of(content)}"', "X-Repo-Commit": REVISION}, content
        return 404, {"X-Error-Code": "EntryNotFound"}, b""

    def _entry(self, name: str) -> dict[str, object]:
        content = self.files[name]
        return {"type": "file", "path": name, "size": len(content), "oid": etag_of(content)}

    @staticmethod
    def _json(content: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


@pytest.fixture
def hub(make_model: Callable[..., Path]) -> Iterator[Hub]:
    state = Hub(make_model("served", file="model_optimized.onnx", dimension=384))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, content = state.answer(unquote(urlsplit(self.path).path))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def run(code: str, hub: Hub, cache: Path) -> tuple[list[str], str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, str(cache)],
        env={**environment, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_TELEMETRY": "1"},  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.slow
def test_a_model_is_fetched_once_and_fetched_again_when_its_files_are_damaged(hub: Hub, tmp_path: Path) -> None:
    code = """
embed(); print(int(ask("/count")) > 0); before = ask("/count")
embed(); print(ask("/count") == before)
onnx().write_bytes(onnx().read_bytes()[:1024]); embed(); print(onnx().stat().st_size > 1024)
ask("/down"); onnx().write_bytes(b""); embed()
"""
    told, warned = run(code, hub, tmp_path / "cache")
    assert told[:6] == ["(2, 384)", "True"] * 3
    assert "its cached files were damaged (" in told[6]
    assert "answers 503; connect once so that it can be downloaded" in told[6]
    assert warned.count("are damaged and will be removed") == 2
    assert not list(tmp_path.glob("cache/models--*"))


@pytest.mark.slow
def test_a_model_that_arrives_damaged_is_given_up_after_one_try(hub: Hub, tmp_path: Path) -> None:
    hub.files["model_optimized.onnx"] = hub.files["model_optimized.onnx"][:100]
    (told,), _ = run("embed()", hub, tmp_path / "cache")
    assert "could not be fetched: InvalidProtobuf" in told
    assert not list(tmp_path.glob("cache/models--*"))
