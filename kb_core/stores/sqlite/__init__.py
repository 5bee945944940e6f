"""The truth of a knowledge base in one SQLite file."""

from kb_core.stores.sqlite.store import SqliteMetadataStore

__all__ = ["SqliteMetadataStore"]
