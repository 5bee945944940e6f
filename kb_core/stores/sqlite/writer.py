"""What a write transaction does to the tables, and to the log that views read."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from kb_core.documents import text_hash
from kb_core.protocols import DocumentWrite, Vectors
from kb_core.stores.sqlite import rows

MAX_PARAMETERS = 500
_IN = "IN (SELECT value FROM json_each(?))"
_KEPT = "(SELECT e.key FROM embeddings AS e WHERE e.text_hash = chunks.text_hash AND e.model = ?2)"
_INSERT_DOCUMENT = (
    "INSERT INTO documents (key, id, source, content_hash, n_chars, n_chunks, added_at, metadata, content) "
    "VALUES (:key, :id, :source, :content_hash, :n_chars, :n_chunks, :added_at, :metadata, :content)"
)
_UPDATE_DOCUMENT = (
    "UPDATE documents SET source = :source, content_hash = :content_hash, n_chars = :n_chars, n_chunks = :n_chunks, "
    "added_at = :added_at, metadata = :metadata, content = :content WHERE key = :key"
)
_UPSERT_CHUNK = (
    "INSERT INTO chunks (document, revision, embedding, id, position, start_char, end_char, text_hash, extra, content) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document, "
    "revision = excluded.revision, embedding = excluded.embedding, position = excluded.position, "
    "start_char = excluded.start_char, end_char = excluded.end_char, text_hash = excluded.text_hash, "
    "extra = excluded.extra, content = excluded.content"
)


def put_settings(connection: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Keep JSON values under keys."""
    encoded = [(key, json.dumps(value, allow_nan=False)) for key, value in values.items()]
    connection.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", encoded)


def model_key(connection: sqlite3.Connection, fingerprint: str) -> int:
    """Give the key of an embedder, known or new."""
    connection.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
    found = connection.execute("SELECT key FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
    return int(found[0])


def add_embeddings(connection: sqlite3.Connection, model: int, embeddings: Mapping[str, Vectors]) -> None:
    """Keep those embeddings that are new; a text that has one already keeps it."""
    connection.executemany(
        "INSERT OR IGNORE INTO embeddings (model, text_hash, vector) VALUES (?, ?, ?)",
        ((model, bytes.fromhex(digest), rows.vector_to_blob(vector)) for digest, vector in embeddings.items()),
    )


class Commit:
    """One commit: takes the next revision when it is made.

    Args:
        connection: Inside a write transaction, which the caller ends.
        fingerprint: Of the embedder whose vectors the chunks take; may be left out for what only deletes.
    """

    def __init__(self, connection: sqlite3.Connection, fingerprint: str | None = None) -> None:
        self._connection = connection
        self.model = 0 if fingerprint is None else model_key(connection, fingerprint)
        connection.execute("UPDATE state SET value = value + 1 WHERE key = 'revision'")
        self.revision = int(connection.execute("SELECT value FROM state WHERE key = 'revision'").fetchone()[0])

    def attach_pending(self) -> None:
        """Give chunks that wait for an embedding theirs, where there is one now."""
        self._connection.execute(
            f"UPDATE chunks SET revision = ?1, embedding = {_KEPT} WHERE embedding IS NULL AND {_KEPT} IS NOT NULL",  # noqa: S608
            (self.revision, self.model),
        )

    def switch(self) -> None:
        """Give every chunk the embedding of this model; those that have none are pending. Views start over."""
        self._connection.execute(f"UPDATE chunks SET revision = ?1, embedding = {_KEPT}", (self.revision, self.model))  # noqa: S608
        self._start_over()

    def _start_over(self) -> None:
        self._connection.execute("DELETE FROM tombstones")
        self._connection.execute("UPDATE state SET value = ? WHERE key = 'log_floor'", (self.revision,))

    def put_documents(self, writes: Sequence[DocumentWrite], added_at: str) -> None:
        """Store documents and their chunks in place of their former versions; chunks that stay are left alone.

        Args:
            writes: Of distinct documents.
            added_at: UTC, ISO 8601.
        """
        known = self._known([write.document.id for write in writes])
        next_key = self._connection.execute("SELECT coalesce(max(key), 0) + 1 FROM documents").fetchone()[0]
        new_documents: list[dict[str, Any]] = []
        chunks: list[tuple[Any, ...]] = []
        for write in writes:
            columns = rows.document_row(write, added_at)
            former: dict[str, tuple[Any, ...]] = {}
            if write.document.id in known:
                columns["key"] = known[write.document.id][0]
                former = self._replace(write, columns, known[write.document.id][1:])
            else:
                columns["key"] = next_key + len(new_documents)
                new_documents.append(columns)
            chunks.extend((former, columns["key"], row) for row in rows.chunk_rows(write))
        self._connection.executemany(_INSERT_DOCUMENT, new_documents)
        embeddings = self._embeddings({row[4] for _, _, row in chunks})
        self._connection.executemany(
            _UPSERT_CHUNK,
            (
                (document, self.revision, embedding, *row)
                for former, document, row in chunks
                if former.get(row[0]) != (*row[:-1], embedding := embeddings.get(row[4]))
            ),
        )

    def _known(self, ids: Sequence[str]) -> dict[str, tuple[int, str, str]]:
        """Map those document ids that are stored to key, source and metadata."""
        found = self._connection.execute(
            f"SELECT id, key, source, metadata FROM documents WHERE id {_IN}",  # noqa: S608
            (json.dumps(list(ids)),),
        )
        return {row[0]: row[1:] for row in found}

    def _replace(
        self, write: DocumentWrite, columns: dict[str, Any], labels: tuple[str, str]
    ) -> dict[str, tuple[Any, ...]]:
        """Update a document and delete the chunks that it lost; give those that may stay as they are, by id."""
        self._connection.execute(_UPDATE_DOCUMENT, columns)
        former = self._chunk_rows(columns["key"])
        self._delete(former.keys() - {chunk.id for chunk in write.chunks})
        return former if labels == (columns["source"], columns["metadata"]) else {}

    def _chunk_rows(self, document: int) -> dict[str, tuple[Any, ...]]:
        found = self._connection.execute(
            "SELECT id, position, start_char, end_char, text_hash, extra, embedding FROM chunks WHERE document = ?",
            (document,),
        )
        return {row[0]: row for row in found}

    def _embeddings(self, digests: Iterable[bytes]) -> dict[bytes, int]:
        """Map those text hashes that have an embedding of this model to its key."""
        found: dict[bytes, int] = {}
        remaining = iter(digests)
        while batch := list(islice(remaining, MAX_PARAMETERS)):
            marks = ",".join("?" * len(batch))
            sql = f"SELECT text_hash, key FROM embeddings WHERE model = ? AND text_hash IN ({marks})"  # noqa: S608
            found.update(self._connection.execute(sql, (self.model, *batch)).fetchall())
        return found

    def update_chunk(self, chunk_id: str, content: str) -> None:
        """Replace the text of a chunk. Raises `KeyError` for an unknown id."""
        digest = bytes.fromhex(text_hash(content))
        updated = self._connection.execute(
            "UPDATE chunks SET revision = ?, content = ?, text_hash = ?, embedding = ? WHERE id = ?",
            (self.revision, content, digest, self._embeddings([digest]).get(digest), chunk_id),
        )
        if updated.rowcount == 0:
            raise KeyError(chunk_id)

    def delete_chunks(self, ids: Sequence[str]) -> int:
        """Delete chunks, and documents that are left with none; counts the chunks that were there."""
        wanted = json.dumps(list(ids))
        documents = rows.fetch_column(self._connection, f"SELECT DISTINCT document FROM chunks WHERE id {_IN}", wanted)  # noqa: S608
        n_deleted = self._delete(ids)
        for document in documents:
            self._connection.execute(
                "UPDATE documents SET content_hash = '', n_chunks = (SELECT count(*) FROM chunks WHERE document = ?1) "
                "WHERE key = ?1",
                (document,),
            )
            self._connection.execute("DELETE FROM documents WHERE key = ? AND n_chunks = 0", (document,))
        return n_deleted

    def delete_documents(self, ids: Sequence[str]) -> int:
        """Erase documents with their chunks; counts the documents that were there."""
        wanted = json.dumps(list(ids))
        self._delete(
            rows.fetch_column(
                self._connection,
                f"SELECT c.id FROM chunks AS c JOIN documents AS d ON d.key = c.document WHERE d.id {_IN}",  # noqa: S608
                wanted,
            )
        )
        return self._connection.execute(f"DELETE FROM documents WHERE id {_IN}", (wanted,)).rowcount  # noqa: S608

    def _delete(self, ids: Iterable[str]) -> int:
        deleted = [
            (chunk_id, self.revision)
            for chunk_id in dict.fromkeys(ids)
            if self._connection.execute("DELETE FROM chunks WHERE id = ?", (chunk_id,)).rowcount
        ]
        self._connection.executemany("INSERT OR REPLACE INTO tombstones VALUES (?, ?)", deleted)
        return len(deleted)

    def clear(self) -> None:
        """Erase everything but the settings; views that are behind must start over."""
        for table in ("chunks", "documents", "embeddings", "models"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608  own literals
        self._start_over()
