"""Keywords by Tantivy, a search engine library in Rust: the default keyword store."""

from kb_core.stores.tantivy.store import TantivyKeywordStore

__all__ = ["TantivyKeywordStore"]
