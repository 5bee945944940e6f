"""A vector store on FAISS: immutable segments, mapped from disk, and an exact tail for what came since.

```
 upsert, delete ─▶ Tail (float32 in memory, scanned exactly)   commit, close
                        │ when it has grown ──────────────────────▶ Segment (immutable, sorted by id)
 search ─▶ Snapshot ─▶ tail + every segment ─▶ merge                 ├ vectors: unit float32 rows
                                                                     ├ ids: blob, offsets, sorted digests
                                                                     └ index: 4-bit codes, IVF or HNSW; or none
```

It is a log-structured merge tree in miniature (O'Neil et al., "The log-structured merge-tree", 1996): a write costs the
same whatever the store holds, and segments of like size are merged, so that there are O(log n) of them.
"""

from kb_core.stores.faiss.store import FaissVectorStore

__all__ = ["FaissVectorStore"]
