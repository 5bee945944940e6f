"""kb-core for LlamaIndex: a knowledge base as a retriever and as a tool, and LlamaIndex embeddings in a knowledge base.

Needs the extra: `pip install "kb-core[llamaindex]"`.
"""

try:
    import llama_index.core  # noqa: F401
except ModuleNotFoundError as error:
    # `llama_index` is a namespace: integrations may be there without the core. All else is an install that is broken.
    if error.name not in {"llama_index", "llama_index.core"}:
        raise
    raise ImportError('kb_llamaindex needs llama-index-core: pip install "kb-core[llamaindex]"') from error

from kb_llamaindex.embeddings import from_llamaindex
from kb_llamaindex.node import KBNode, KBNodeWithScore
from kb_llamaindex.retriever import KBRetriever
from kb_llamaindex.tool import kb_tool

__all__ = ["KBNode", "KBNodeWithScore", "KBRetriever", "from_llamaindex", "kb_tool"]
