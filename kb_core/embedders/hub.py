"""Whether a model hub can be reached, decided within seconds; its own client would retry for more than a minute."""

import os
import sys
import threading
import time

TIMEOUT_S = 2.0
"""For the whole look: name, connection, answer."""

REMEMBER_S = 30.0
"""How long an unreachable hub is not tried again, so that opening ten knowledge bases does not cost ten time-outs."""

_failures: dict[str, tuple[float, str]] = {}
_lock = threading.Lock()


def is_offline() -> bool:
    """Tell whether the user switched the hub off (`HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`)."""
    switched_off = any(
        os.environ.get(name, "").strip().upper() in {"1", "ON", "YES", "TRUE"}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )
    # The client reads the environment once, when it is imported; then its own constant is what counts.
    constants = sys.modules.get("huggingface_hub.constants")
    return switched_off or bool(getattr(constants, "HF_HUB_OFFLINE", False))


def why_unreachable(repository: str) -> str | None:
    """Look whether the hub serves a repository, in at most `TIMEOUT_S`.

    Args:
        repository: "owner/name" on the hub; `HF_ENDPOINT` names another hub than huggingface.co.

    Returns:
        None if it does, else the reason in a few words. Never raises; makes no connection when `is_offline()`.
    """
    if is_offline():
        return "HF_HUB_OFFLINE is set"
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    key = f"{endpoint}/{repository}"
    with _lock:
        failed_at, reason = _failures.get(key, (0.0, ""))
        if reason and time.monotonic() - failed_at < REMEMBER_S:
            return reason
        found = _ask(f"{key}/resolve/main/config.json", endpoint)
        if found is not None:
            _failures[key] = (time.monotonic(), found)
        return found


def _ask(url: str, endpoint: str) -> str | None:
    """Ask in a thread of its own: a resolver that never answers has no time-out that we could set."""
    import httpx

    answer: list[str | None] = []

    def ask() -> None:
        try:
            status = httpx.head(url, timeout=TIMEOUT_S).status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            answer.append(f"{endpoint} cannot be reached: {type(error).__name__}")
        else:
            answer.append(None if status < 400 else f"{endpoint} answers {status}")

    thread = threading.Thread(target=ask, name="kb-hub-look", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return answer[0] if answer else f"{endpoint} did not answer within {TIMEOUT_S:g} s"
