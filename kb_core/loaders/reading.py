"""Bytes from a file: only a regular one, only so many, only a state in which the file was for the whole time."""

import errno
import os
import stat
from pathlib import Path

from kb_core.errors import KBError, LoaderError, SourceNotFoundError


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a file whole.

    Args:
        path: Links are followed.
        max_bytes: How large it may be.

    Raises:
        SourceNotFoundError: Nothing is there, or a link that leads nowhere.
        LoaderError: It is no regular file, is too large, may not be read, or changed while it was being read, twice.
            The reason does not name the path.
    """
    try:
        for _ in range(2):
            data = _read_unchanged(path, max_bytes)
            if data is not None:
                return data
    except (OSError, ValueError) as error:  # ValueError: a name that the system cannot have
        raise _reason(path, error) from error
    raise LoaderError("it changed while it was being read; add it again when it is complete")


def check_file(path: Path) -> None:
    """Raise as `read_file` does where there is no file that could be read."""
    try:
        _refuse_irregular(path.stat().st_mode)
    except (OSError, ValueError) as error:
        raise _reason(path, error) from error


def _read_unchanged(path: Path, max_bytes: int) -> bytes | None:
    _refuse_irregular(path.stat().st_mode)
    # Between the check and the opening it may have become a FIFO, which would block until someone writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        before = os.fstat(file.fileno())
        _refuse_irregular(before.st_mode)
        # Files that the kernel makes up, as in /proc, say that they have 0 bytes.
        data = file.read(min(before.st_size or max_bytes, max_bytes) + 1)
        after = os.fstat(file.fileno())
    if len(data) > max_bytes:
        raise LoaderError(f"it is larger than {max_bytes:,} bytes, the most that is read of a file")
    is_unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return data if is_unchanged else None


def _refuse_irregular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise LoaderError("it is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise LoaderError("it is no regular file but a pipe, socket or device")


def _reason(path: Path, error: OSError | ValueError) -> KBError:
    if isinstance(error, FileNotFoundError):
        return SourceNotFoundError("it is a link to nothing" if path.is_symlink() else "there is no such file")
    if isinstance(error, ValueError) or error.errno in {errno.ENAMETOOLONG, errno.ENOTDIR}:
        return SourceNotFoundError(f"no file can have this name ({error.args[-1]})")
    return LoaderError(f"it cannot be read: {error.strerror}")
