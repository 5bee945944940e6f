"""The contract: what a knowledge base is made of, and what it offers.

Everything here is structural: an object with these methods is a store, no base class needed. The suites in
`kb_core.testing` check an implementation against what is written here.

Rules that hold for every store:

* Ids are strings, any string. An id upserted twice is held once; a delete ignores ids it does not know.
* A search returns at most `top_k` hits, best first, ties in order of id; fewer only where no more match.
  `top_k=0` gives `[]`; an empty store gives `[]`.
* A call that raises has changed nothing.
* Every method may be called from any thread, searches while writing included.
* `revision` and `commit` let a store that is derived from the truth say how far it has read: see `View`.
"""

from kb_core.protocols.knowledge_base import KnowledgeBase
from kb_core.protocols.matching import Embedder, Hit, KeywordStore, Selection, Vectors, VectorStore, View, check_top_k
from kb_core.protocols.metadata_store import Changes, DocumentInfo, DocumentWrite, MetadataStore, Neighbours

__all__ = [
    "Changes",
    "DocumentInfo",
    "DocumentWrite",
    "Embedder",
    "Hit",
    "KeywordStore",
    "KnowledgeBase",
    "MetadataStore",
    "Neighbours",
    "Selection",
    "VectorStore",
    "Vectors",
    "View",
    "check_top_k",
]
