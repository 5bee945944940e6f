"""kb-core for LangChain: a knowledge base as a retriever and as a tool, and LangChain embeddings in a knowledge base.

Needs the extra: `pip install "kb-core[langchain]"`.
"""

try:
    import langchain_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "langchain_core":  # an install that is broken, not one that is missing
        raise
    raise ImportError('kb_langchain needs langchain-core: pip install "kb-core[langchain]"') from error

from kb_langchain.embeddings import from_langchain
from kb_langchain.retriever import KBRetriever
from kb_langchain.tool import kb_tool

__all__ = ["KBRetriever", "from_langchain", "kb_tool"]
