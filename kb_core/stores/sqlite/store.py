"""SqliteMetadataStore: the truth of a knowledge base in one SQLite file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from kb_core.documents import Chunk, Document
from kb_core.filters import Filter
from kb_core.metadata import decode_metadata
from kb_core.protocols import Changes, DocumentInfo, DocumentWrite, Neighbours, Vectors
from kb_core.stores.sqlite import rows, writer
from kb_core.stores.sqlite.connection import Database

_INFO_COLUMNS = "id, source, metadata, n_chunks, n_chars, content_hash, added_at"
_IN = "IN (SELECT value FROM json_each(?))"
_COUNTS = {
    "documents": "SELECT count(*) FROM documents",
    "chunks": "SELECT count(*) FROM chunks",
    "pending": "SELECT count(*) FROM chunks WHERE embedding IS NULL",
}
_PENDING = "SELECT content FROM chunks WHERE embedding IS NULL GROUP BY text_hash"
_UNEMBEDDED = """
SELECT content FROM chunks AS c WHERE NOT EXISTS (
    SELECT 1 FROM embeddings AS e JOIN models AS m ON m.key = e.model
    WHERE m.fingerprint = ? AND e.text_hash = c.text_hash
) GROUP BY text_hash
"""
_DELETED = "SELECT id FROM tombstones WHERE revision > ? ORDER BY id"
_JOINED = "FROM chunks AS c JOIN documents AS d ON d.key = c.document"
_CHANGED = f"SELECT {rows.CHUNK_COLUMNS} {_JOINED} WHERE c.revision > ? ORDER BY c.key"
_CHANGED_EMBEDDED = (
    f"SELECT {rows.CHUNK_COLUMNS}, e.vector {_JOINED} JOIN embeddings AS e ON e.key = c.embedding "
    "WHERE c.revision > ? ORDER BY c.key"
)

_NEIGHBOURS = f"""
SELECT c.id,
    (SELECT p.id FROM chunks AS p WHERE p.document = c.document AND p.position < c.position
     ORDER BY p.position DESC LIMIT 1),
    (SELECT n.id FROM chunks AS n WHERE n.document = c.document AND n.position > c.position
     ORDER BY n.position LIMIT 1)
FROM chunks AS c WHERE c.id {_IN}
"""  # noqa: S608  own literals


def _text_batch(revision: int, found: list[tuple[Any, ...]]) -> Changes:
    return Changes(revision, chunks=[rows.chunk_from_row(row) for row in found])


def _embedded_batch(revision: int, found: list[tuple[Any, ...]]) -> Changes:
    chunks = [rows.chunk_from_row(row) for row in found]
    return Changes(revision, chunks=chunks, vectors=rows.matrix_from_blobs([row[-1] for row in found]))


class SqliteMetadataStore:
    """Documents, chunks, embeddings and settings in one SQLite file. See `MetadataStore`.

    A read sees one committed state and never waits for a writer; a write is one transaction. Embeddings outlive the
    chunks that they were made for, so that a text that comes back is not embedded again; `clear` erases them too.

    Args:
        path: The file, made with mode 0600 where it is missing; None keeps everything in memory.
        read_only: Write nothing, create nothing, also not beside the file; works on a read-only file system.
        lock_timeout: Seconds to wait for another process's write before `StoreLockedError`.
        journal_mode: `"wal"`, or `"delete"` for network and other mounts that cannot share memory.

    Raises:
        StoreError: The file is damaged, or another program's.
        StoreVersionError: The file was written by a newer release.
        SourceNotFoundError: `read_only`, and the file is not there.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        journal_mode: str = "wal",
    ) -> None:
        self._database = Database(
            None if path is None else Path(path),
            read_only=read_only,
            lock_timeout=lock_timeout,
            journal_mode=journal_mode,
        )
        self._select_cached = lru_cache(maxsize=16)(self._select)

    @property
    def store_id(self) -> str:
        """A random name given to the file when it was made, so that views of another file are told apart."""
        return str(self._state("store_id"))

    def revision(self) -> int:
        return int(self._state("revision"))

    def _state(self, key: str) -> Any:
        with self._database.read() as connection:
            return connection.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()[0]

    # -- writing

    def put(self, writes: Sequence[DocumentWrite], *, fingerprint: str, embeddings: Mapping[str, Vectors]) -> int:
        added_at = datetime.now(UTC).isoformat(timespec="seconds")
        with self._database.write() as connection:
            commit = writer.Commit(connection, fingerprint)
            writer.add_embeddings(connection, commit.model, embeddings)
            commit.put_documents(list({write.document.id: write for write in writes}.values()), added_at)
            return commit.revision

    def put_embeddings(self, fingerprint: str, embeddings: Mapping[str, Vectors]) -> None:
        with self._database.write() as connection:
            writer.add_embeddings(connection, writer.model_key(connection, fingerprint), embeddings)

    def attach_embeddings(self, fingerprint: str, *, switch_to: Mapping[str, Any] | None = None) -> int:
        with self._database.write() as connection:
            commit = writer.Commit(connection, fingerprint)
            if switch_to is None:
                commit.attach_pending()
            else:
                commit.switch()
                writer.put_settings(connection, switch_to)
            return commit.revision

    def update_chunk(self, chunk_id: str, content: str, *, fingerprint: str, embeddings: Mapping[str, Vectors]) -> int:
        with self._database.write() as connection:
            commit = writer.Commit(connection, fingerprint)
            writer.add_embeddings(connection, commit.model, embeddings)
            commit.update_chunk(chunk_id, content)
            return commit.revision

    def delete_chunks(self, ids: Sequence[str]) -> int:
        with self._database.write() as connection:
            n_deleted = writer.Commit(connection).delete_chunks(ids)
        self._database.shrink()
        return n_deleted

    def delete_documents(self, ids: Sequence[str]) -> int:
        with self._database.write() as connection:
            n_deleted = writer.Commit(connection).delete_documents(ids)
        self._database.shrink()
        return n_deleted

    def clear(self) -> None:
        with self._database.write() as connection:
            writer.Commit(connection).clear()
        self._database.shrink()

    def set_settings(self, values: Mapping[str, Any]) -> None:
        with self._database.write() as connection:
            writer.put_settings(connection, values)

    # -- reading

    def get_setting(self, key: str) -> Any:
        with self._database.read() as connection:
            row = connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def get_document(self, document_id: str) -> Document | None:
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT id, content, source, metadata FROM documents WHERE id = ?", (document_id,)
            ).fetchone()
        if row is None:
            return None
        return Document.model_construct(id=row[0], content=row[1], source=row[2], metadata=decode_metadata(row[3]))

    def documents(self, *, source: str | None = None) -> Iterator[DocumentInfo]:
        condition, parameters = ("", ()) if source is None else ("WHERE source = ?", (source,))
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT {_INFO_COLUMNS} FROM documents {condition} ORDER BY source, id",  # noqa: S608  own literals
                parameters,
            ).fetchall()
        return map(rows.document_info, found)

    def content_hashes(self, document_ids: Sequence[str]) -> dict[str, str]:
        with self._database.read() as connection:
            return dict(
                connection.execute(
                    f"SELECT id, content_hash FROM documents WHERE id {_IN}",  # noqa: S608
                    (json.dumps(list(document_ids)),),
                ).fetchall()
            )

    def chunks(self, document_id: str) -> list[Chunk]:
        return self._chunks("d.id = ? ORDER BY c.position, c.id", document_id)

    def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        found = {chunk.id: chunk for chunk in self._chunks(f"c.id {_IN}", json.dumps(list(ids)))}
        seen = dict.fromkeys(ids)
        return [found[chunk_id] for chunk_id in seen if chunk_id in found]

    def _chunks(self, condition: str, parameter: str) -> list[Chunk]:
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT {rows.CHUNK_COLUMNS} {_JOINED} WHERE {condition}", (parameter,)
            ).fetchall()
        return [rows.chunk_from_row(row) for row in found]

    def neighbours(self, ids: Sequence[str]) -> dict[str, Neighbours]:
        with self._database.read() as connection:
            found = connection.execute(_NEIGHBOURS, (json.dumps(list(ids)),)).fetchall()
        return {chunk_id: Neighbours(previous, following) for chunk_id, previous, following in found}

    def embeddings(self, fingerprint: str, text_hashes: Sequence[str]) -> dict[str, Vectors]:
        found: dict[str, Vectors] = {}
        with self._database.snapshot() as connection:
            model = connection.execute("SELECT key FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
            if model is None:
                return found
            remaining = iter(map(bytes.fromhex, text_hashes))
            while batch := list(islice(remaining, writer.MAX_PARAMETERS)):
                marks = ",".join("?" * len(batch))
                sql = f"SELECT text_hash, vector FROM embeddings WHERE model = ? AND text_hash IN ({marks})"  # noqa: S608
                for digest, blob in connection.execute(sql, (model[0], *batch)):
                    found[digest.hex()] = rows.vector_from_blob(blob)
        return found

    def unembedded(self, fingerprint: str | None = None) -> Iterator[str]:
        sql, parameters = (_PENDING, ()) if fingerprint is None else (_UNEMBEDDED, (fingerprint,))
        with self._database.read() as connection:
            return iter(rows.fetch_column(connection, sql, *parameters))

    def counts(self) -> dict[str, int]:
        with self._database.snapshot() as connection:
            return {name: int(connection.execute(sql).fetchone()[0]) for name, sql in _COUNTS.items()}

    def select(self, where: Filter) -> frozenset[str]:
        return self._select_cached(where, self.revision())

    def _select(self, where: Filter, revision: int) -> frozenset[str]:
        with self._database.snapshot() as connection:
            documents: dict[int, tuple[str, str]] = {}
            matching: set[int] = set()
            for key, source, metadata in connection.execute("SELECT key, source, metadata FROM documents"):
                documents[key] = (source, metadata)
                if where.matches({**rows.shared_metadata(metadata), "source": source}):
                    matching.add(key)
            plain = connection.execute("SELECT id, document FROM chunks WHERE extra IS NULL")
            ids = {chunk_id for chunk_id, document in plain if document in matching}
            special = connection.execute("SELECT id, document, extra FROM chunks WHERE extra IS NOT NULL")
            ids.update(
                chunk_id
                for chunk_id, document, extra in special
                if where.matches(rows.chunk_metadata(*documents[document], extra))
            )
        return frozenset(ids)

    def changes(self, since: int, *, with_vectors: bool, batch_size: int = 2048) -> Iterator[Changes]:
        sql, to_batch = (_CHANGED_EMBEDDED, _embedded_batch) if with_vectors else (_CHANGED, _text_batch)
        with self._database.snapshot() as connection:
            state = dict(connection.execute("SELECT key, value FROM state"))
            revision = int(state["revision"])
            is_reset = since == 0 or since > revision or since < int(state["log_floor"])
            since = 0 if is_reset else since
            deleted = [] if is_reset else rows.fetch_column(connection, _DELETED, since)
            yield Changes(revision, is_reset=is_reset, deleted=deleted)
            cursor = connection.execute(sql, (since,))
            while found := cursor.fetchmany(batch_size):
                yield to_batch(revision, found)

    def close(self) -> None:
        self._database.close()
