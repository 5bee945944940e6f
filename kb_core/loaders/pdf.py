"""PDF, read by pypdf in a process of its own.

A page of a damaged or hostile file can keep a parser busy for ever or fill the memory, and a thread cannot be stopped.
The process (see `pdf_worker`) is started for the first PDF and used again for the next ones, because importing pypdf
takes longer than reading a small file; it ends itself when a page takes too long, and after a minute without work.
"""

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

from kb_core.errors import LoaderError
from kb_core.loaders import pdf_worker
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits

_log = logging.getLogger(__name__)

_SEAM = "\n\n"


def load_pdf(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a PDF: its pages joined by a blank line, with where each starts, and the title in the metadata.

    Raises:
        LoaderError: Damaged beyond repair, encrypted, without text, too long, or a page took too long.
    """
    del suffix
    if not data:
        raise LoaderError("it is empty (0 bytes)")
    found = _extract(data, limits)
    if "error" in found:
        raise LoaderError(found["error"])
    pages: list[str] = found["pages"]
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + len(_SEAM)
    metadata = {"n_pages": len(pages)} | ({"title": found["title"]} if found["title"] else {})
    return Extracted([ExtractedText(_SEAM.join(pages), metadata)], found["warnings"], starts)


def _extract(data: bytes, limits: Limits) -> dict[str, Any]:
    request: dict[str, Any] = {
        "max_pages": limits.max_pages,
        "max_chars": limits.max_chars,
        "file_seconds": limits.file_seconds,
    }
    if sys.executable and not getattr(sys, "frozen", False):
        with _reader.lock:
            try:
                return _reader.extract(data, {**request, "page_seconds": limits.page_seconds, "n_bytes": len(data)})
            except _NotStartedError as error:
                _log.warning("PDFs are read in this process, where only whole pages can be timed out: %s", error)
    return pdf_worker.extract(data, **request, on_step=lambda: None)


class _NotStartedError(Exception):
    """The interpreter could not be started, as where Python is embedded in another program."""


class _Reader:
    """The process, started when needed. Hold `lock` while using it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def extract(self, data: bytes, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._converse(self._ready_process(request), data, request)
        except BaseException:  # also Ctrl-C: an answer that nobody has read would be taken for the next file's
            self.stop()
            raise

    def _ready_process(self, request: dict[str, Any]) -> subprocess.Popen[bytes]:
        # That of an earlier file may have ended itself in the meantime.
        if self._process is not None and self._is_ready(self._process, request):
            return self._process
        self.stop()
        self._process = _start()
        if self._is_ready(self._process, request):
            return self._process
        raise _NotStartedError(f"{sys.executable} did not answer")

    def _is_ready(self, process: subprocess.Popen[bytes], request: dict[str, Any]) -> bool:
        requests, answers = _pipes(process)
        try:
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
        except OSError:
            return False
        return answers.readline() == b"ready\n"

    def _converse(self, process: subprocess.Popen[bytes], data: bytes, request: dict[str, Any]) -> dict[str, Any]:
        requests, answers = _pipes(process)
        with contextlib.suppress(OSError):  # it ended: the answer is missing too
            requests.write(data)
            requests.flush()
        answer = answers.readline()
        if answer.endswith(b"\n"):
            found: dict[str, Any] = json.loads(answer)
            return found
        code = process.wait()
        if code == pdf_worker.EXIT_OF_TIMEOUT:
            raise LoaderError(f"opening it or one of its pages took longer than {request['page_seconds']:g} s")
        raise LoaderError(f"it made the reader crash (exit code {code})")

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in _pipes(process):
            with contextlib.suppress(OSError):  # what could not be written any more
                pipe.close()
        process.wait()


def _start() -> subprocess.Popen[bytes]:
    # By path, -P and PYTHONPATH: the modules beside the script are named like those of the standard library.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-X", "utf8", str(Path(pdf_worker.__file__).resolve())]
    try:
        return subprocess.Popen(  # noqa: S603  our own script, by the interpreter that runs this
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
    except OSError as error:
        raise _NotStartedError(str(error)) from error


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise LoaderError("the PDF reader was started without pipes")
    return process.stdin, process.stdout


_reader = _Reader()
_inherited: list[_Reader] = []


def _leave_to_parent() -> None:
    """Start anew in a forked child: its parent talks to the process, and another thread may hold the lock."""
    global _reader  # noqa: PLW0603
    _inherited.append(_reader)  # kept, because Popen warns when it goes before its process
    _reader = _Reader()


def _stop() -> None:
    _reader.stop()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
