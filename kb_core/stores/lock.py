"""A lock among processes, on a file that stays."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


@contextmanager
def file_lock(path: Path, *, wait_s: float = 0.0) -> Iterator[bool]:
    """Hold the lock for the block, if it can be had; the system lets go of it when the process dies.

    Args:
        path: The lock file, made if it is not there.
        wait_s: How long to wait for another holder, in seconds.

    Yields:
        Whether it is held.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        is_held = _try_lock(descriptor)
        while not is_held and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            is_held = _try_lock(descriptor)
        yield is_held
    finally:
        os.close(descriptor)  # lets go of the lock, too


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
