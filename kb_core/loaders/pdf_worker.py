"""The process that reads PDFs, and what it runs.

Run as a script, it must stay independent of the package around it: it imports nothing of `kb_core`, so that it starts
fast.

A request is a line of JSON (`n_bytes` and the limits) and the file's bytes; the answers are a line `ready` once the
header has been read, then a line of JSON: `pages`, `title` and `warnings`, or `error`.
"""

import contextlib
import faulthandler
import importlib
import io
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

MAX_MEMORY_BYTES = 2 * 2**30
"""Address space of the process, where the system can limit it: twenty times the largest file that is read."""

IDLE_SECONDS = 60.0

EXIT_OF_TIMEOUT = 1
"""The exit code that faulthandler gives."""

EXIT_OF_FAILURE = 3


def extract(
    data: bytes, *, max_pages: int, max_chars: int, file_seconds: float, on_step: Callable[[], None]
) -> dict[str, Any]:
    """Take the text out of a PDF.

    Args:
        data: The file.
        max_pages: More are an error.
        max_chars: A longer text is an error.
        file_seconds: Looked at between pages.
        on_step: Called before the file is opened and before each page.

    Returns:
        `pages` (a text for each page), `title`, `warnings`; or `error`, the reason in words.
    """
    try:
        return _extract(data, max_pages=max_pages, max_chars=max_chars, deadline=_after(file_seconds), on_step=on_step)
    except MemoryError:
        return {"error": "it needs too much memory"}
    except RecursionError:
        return {"error": "it is damaged: its parts hold one another"}
    except Exception as error:  # noqa: BLE001  pypdf raises anything on a damaged file
        return {"error": f"it is damaged ({type(error).__name__}: {str(error)[:200]})"}


def _after(seconds: float) -> float:
    return time.monotonic() + seconds


def _extract(
    data: bytes, *, max_pages: int, max_chars: int, deadline: float, on_step: Callable[[], None]
) -> dict[str, Any]:
    import pypdf
    from pypdf.errors import DependencyError

    on_step()
    reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "it is encrypted and needs a password"}
    except DependencyError:
        return {"error": "it is encrypted; to read it, install the package cryptography"}
    n_pages = len(reader.pages)
    if n_pages > max_pages:
        return {"error": f"it has {n_pages:,} pages; the most that is read are {max_pages:,}"}
    pages: list[str] = []
    failures: list[str] = []
    n_chars = 0
    for number in range(1, n_pages + 1):
        on_step()
        if time.monotonic() > deadline:
            return {"error": f"it took too long: {number - 1:,} of {n_pages:,} pages were read"}
        pages.append(_page_text(reader, number, failures))
        n_chars += len(pages[-1])
        if n_chars > max_chars:
            return {"error": f"its text is longer than {max_chars:,} characters"}
    on_step()
    return _result(pages, failures, _title(reader))


def _page_text(reader: Any, number: int, failures: list[str]) -> str:
    try:
        return str(reader.pages[number - 1].extract_text()).strip()
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001  one broken page must not cost the others
        failures.append(f"page {number} could not be read ({type(error).__name__})")
        return ""


def _title(reader: Any) -> str:
    with contextlib.suppress(Exception):
        return str(reader.metadata.title or "").strip()
    return ""


def _result(pages: list[str], failures: list[str], title: str) -> dict[str, Any]:
    n_blank = pages.count("") - len(failures)
    if not any(pages):
        if failures:
            return {"error": f"none of its {len(pages):,} pages could be read; {failures[0]}"}
        return {"error": f"its {len(pages):,} pages hold no text (scanned?)" if pages else "it has no pages"}
    if n_blank:
        failures.append(f"{n_blank:,} of {len(pages):,} pages hold no text (scanned?)")
    return {"pages": pages, "title": title, "warnings": failures}


def _serve() -> None:
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process by itself
    logging.disable()
    _limit_memory()
    importlib.import_module("pypdf")  # now, so that it does not count as time of the first file
    requests = sys.stdin.buffer
    _exit_after(IDLE_SECONDS)
    while header := requests.readline():
        limits = json.loads(header)
        page_seconds = limits.pop("page_seconds")
        n_bytes = limits.pop("n_bytes")
        _exit_after(page_seconds)
        answers.write(b"ready\n")
        answers.flush()
        result = extract(requests.read(n_bytes), on_step=partial(_exit_after, page_seconds), **limits)
        answers.write(json.dumps(result).encode() + b"\n")
        answers.flush()
        _exit_after(IDLE_SECONDS)


def _exit_after(seconds: float) -> None:
    """End this process, whatever it is doing then, unless called again: a thread below Python watches the clock."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit, macOS ignores it
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, resource.RLIM_INFINITY))


if __name__ == "__main__":
    try:
        _serve()
    except Exception:  # noqa: BLE001  out of memory while taking the file in: Python would exit with 1
        sys.exit(EXIT_OF_FAILURE)
