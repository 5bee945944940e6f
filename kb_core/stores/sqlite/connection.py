"""SQLite connections that many threads, many processes and a fork can share a file through."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from kb_core.errors import SourceNotFoundError, StoreError, StoreLockedError, StoreReadOnlyError
from kb_core.stores.folders import make_private
from kb_core.stores.sqlite import schema

MAX_IDLE = 8
_ABANDONED: list[sqlite3.Connection] = []
"""Connections of the parent, kept from being closed in a forked child: closing there could drop its locks."""


class Database:
    """A pool of connections to one file, or one connection to memory.

    Args:
        path: The file; None keeps everything in memory, behind one connection that threads take in turn.
        read_only: Nothing is created, nothing is written, not even beside the file.
        lock_timeout: Seconds to wait for another writer.
        journal_mode: `"wal"`: readers never wait. `"delete"` where the file system cannot share memory between
            processes (network mounts, some container mounts).

    Raises:
        StoreError: The file is damaged or no knowledge base.
        StoreLockedError: Another process kept the file locked.
        SourceNotFoundError: `read_only`, and there is no such file.
    """

    def __init__(self, path: Path | None, *, read_only: bool, lock_timeout: float, journal_mode: str) -> None:
        if journal_mode not in {"wal", "delete"}:
            raise ValueError(f'journal_mode must be "wal" or "delete", got {journal_mode!r}')
        self.path = path
        self.read_only = read_only
        self._lock_timeout = lock_timeout
        self._journal_mode = journal_mode
        self._idle: list[sqlite3.Connection] = []
        self._memory: sqlite3.Connection | None = None
        self._guard = threading.RLock()
        self._write_guard = threading.RLock()
        self._pid = os.getpid()
        self._is_closed = False
        self._snapshot: tuple[int, int] | None = None
        self._generation = 0
        try:
            self._first_open()
        except BaseException:
            self.close()
            raise

    def _first_open(self) -> None:
        if self.path is None:
            self._memory = self._connect()
            schema.prepare(self._memory, "memory")
            return
        if self.read_only:
            if not self.path.is_file():
                raise SourceNotFoundError(f"there is no knowledge base at {self.path}")
            self._snapshot = self._unlocked_snapshot()
        else:
            self._make_file(self.path)
        with self.read() as connection, self._translated():
            if self.read_only:
                schema.check_readable(connection, str(self.path))
            else:
                schema.prepare(connection, str(self.path))
                self._set_journal_mode(connection)

    def _make_file(self, path: Path) -> None:
        try:
            make_private(path.parent)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written: {error.strerror}. To search it only, open it with read_only=True"
            ) from error

    def _unlocked_snapshot(self) -> tuple[int, int] | None:
        """Identify the file's state where no writer has it open; None where one may.

        Without a write-ahead log the file alone is the whole truth, and can be read with no lock and no shared memory:
        that is what works on a read-only file system, and creates nothing.
        """
        path = self._file
        if Path(f"{path}-wal").exists():
            return None
        stat = path.stat()
        return stat.st_mtime_ns, stat.st_size

    @property
    def _file(self) -> Path:
        if self.path is None:
            raise StoreError("a store in memory has no file")
        return self.path

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            target, is_uri = ":memory:", False
        else:
            mode = "rw" if not self.read_only else "ro" if self._snapshot is None else "ro&immutable=1"
            target, is_uri = f"file:{quote(str(self.path.absolute()))}?mode={mode}", True
        connection = sqlite3.connect(
            target, uri=is_uri, timeout=self._lock_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            # Foreign keys stay unchecked: `Commit` deletes chunks before their document, and checking each row took
            # two fifths of a bulk write.
            connection.execute("PRAGMA cache_size = -16000")  # KiB
            connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: 64 MiB, or a bulk write stops too often
            if not self.read_only:
                # FULL: a commit is on disk when it returns, power loss included.
                connection.execute(f"PRAGMA synchronous = {'OFF' if self.path is None else 'FULL'}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_journal_mode(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait on its own here: two processes that switch a fresh file at once would fail.
        deadline = time.monotonic() + self._lock_timeout
        while True:
            try:
                connection.execute(f"PRAGMA journal_mode = {self._journal_mode}")
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection in autocommit mode."""
        if self._memory is not None:
            with self._guard:
                yield self._memory
            return
        connection, generation = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection, generation)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one state of the store until it is given back."""
        with self.read() as connection, self._translated():
            if connection.in_transaction:  # memory, called inside a transaction of the same thread
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside a write transaction: committed, and on disk, if the block ends without an error.

        Raises:
            StoreReadOnlyError: The store was opened read-only.
            StoreLockedError: Another writer kept the lock for longer than `lock_timeout`.
        """
        if self.read_only:
            raise StoreReadOnlyError(f"{self.path} was opened read-only: nothing can be added, changed or deleted")
        with self._write_guard, self.read() as connection, self._translated():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise StoreLockedError(
                    f"another process holds the write lock of {self.path}; gave up after {self._lock_timeout:g} s"
                ) from error
            if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
                raise StoreError(f"{self.path} is damaged or no SQLite database ({error})") from error
            raise StoreError(f"{self.path or 'the store in memory'}: {error}") from error

    def _take(self) -> tuple[sqlite3.Connection, int]:
        with self._guard:
            if self._is_closed:
                raise StoreError(f"the knowledge base at {self.path} is closed")
            if self._pid != os.getpid():
                self._leave_to_parent()
            if self._snapshot is not None and self._snapshot != self._unlocked_snapshot():
                self._drop_idle()
                self._snapshot = None  # a writer came: from here on, with locks
                self._generation += 1
            generation = self._generation
            if self._idle:
                return self._idle.pop(), generation
        with self._translated():
            return self._connect(), generation

    def _leave_to_parent(self) -> None:
        _ABANDONED.extend(self._idle)
        self._idle = []
        self._generation += 1
        self._pid = os.getpid()
        self._write_guard = threading.RLock()

    def _give_back(self, connection: sqlite3.Connection, generation: int) -> None:
        with self._guard:
            if not self._is_closed and generation == self._generation and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def shrink(self) -> None:
        """Give pages back to the file system where a quarter of the file, and 1 MiB, is free."""
        with self.read() as connection:
            free, total = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
            )
        if free * schema.PAGE_SIZE > 1 << 20 and free * 4 > total:
            with self._write_guard, self.read() as connection, self._translated():
                # A statement without columns is stepped once by `execute`, which frees a single page.
                connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def close(self) -> None:
        """Close every connection that is not lent; those that are close when they come back."""
        with self._guard:
            if self._pid != os.getpid():
                self._leave_to_parent()
            self._is_closed = True
            self._drop_idle()
            if self._memory is not None:
                self._memory.close()
