"""The tables of `kb.sqlite`, and how an older file becomes the present one."""

import sqlite3
import uuid
from collections.abc import Callable

from kb_core.errors import StoreError, StoreVersionError

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6B62_636F
"""`kbco` in the file's header, so that another program's database is told apart."""

# Vectors of 1 to 3 KB fill a page of 16 KiB to 95 %, but one of 4 KiB to 75 %.
PAGE_SIZE = 16_384

_TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    n_chars INTEGER NOT NULL,
    n_chunks INTEGER NOT NULL,
    added_at TEXT NOT NULL,
    metadata TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE INDEX documents_by_source ON documents (source);
CREATE TABLE models (key INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE embeddings (
    key INTEGER PRIMARY KEY,
    model INTEGER NOT NULL REFERENCES models (key),
    text_hash BLOB NOT NULL,
    vector BLOB NOT NULL
);
CREATE UNIQUE INDEX embeddings_by_text ON embeddings (text_hash, model);
CREATE TABLE chunks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents (key),
    position INTEGER NOT NULL,
    start_char INTEGER NOT NULL,
    end_char INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    embedding INTEGER REFERENCES embeddings (key),
    text_hash BLOB NOT NULL,
    extra TEXT,
    content TEXT NOT NULL
);
CREATE INDEX chunks_by_document ON chunks (document, position);
CREATE INDEX chunks_by_revision ON chunks (revision);
CREATE INDEX chunks_pending ON chunks (text_hash) WHERE embedding IS NULL;
CREATE TABLE tombstones (id TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX tombstones_by_revision ON tombstones (revision);
"""

_MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}
"""What lifts a file from the version that is the key to the next one; runs inside the opening transaction."""


def version_of(connection: sqlite3.Connection) -> int:
    """Read the schema version: 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_readable(connection: sqlite3.Connection, where: str) -> None:
    """Refuse a file that this release cannot read; nothing is changed.

    Raises:
        StoreError: The file belongs to another program, or holds no knowledge base.
        StoreVersionError: A newer release wrote it, or an older one and it is opened read-only.
    """
    version = version_of(connection)
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        raise StoreVersionError(
            f"{where} was written by a newer release (schema {version}; this one reads up to {SCHEMA_VERSION}). "
            "It was left untouched: upgrade kb-core to open it."
        )
    if application != APPLICATION_ID:
        raise StoreError(f"{where} is a SQLite database, but not a knowledge base. It was left untouched.")


def prepare(connection: sqlite3.Connection, where: str) -> None:
    """Create the tables in an empty file, or lift an older file to the present schema; safe to race.

    Args:
        connection: In autocommit mode, writable.
        where: The file's name, for messages.

    Raises:
        StoreError: See `check_readable`.
    """
    if version_of(connection) == SCHEMA_VERSION:
        check_readable(connection, where)
        return
    if _is_empty(connection):
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    else:
        check_readable(connection, where)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(connection):
            _create(connection)
        else:
            _migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    state = {"revision": 0, "log_floor": 0, "store_id": uuid.uuid4().hex}
    connection.executemany("INSERT INTO state VALUES (?, ?)", state.items())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _migrate(connection: sqlite3.Connection) -> None:
    for version in range(version_of(connection), SCHEMA_VERSION):
        _MIGRATIONS[version](connection)
        connection.execute(f"PRAGMA user_version = {version + 1}")
