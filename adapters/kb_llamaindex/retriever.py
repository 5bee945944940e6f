"""A knowledge base as a LlamaIndex retriever."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilters

from kb_core.documents import SearchResult
from kb_core.protocols import KnowledgeBase, Neighbours, check_top_k
from kb_core.retrieval import request_of
from kb_llamaindex.filters import bound_filter
from kb_llamaindex.node import node_of

_DEFAULT_TOP_K: Final = 5
_ANY_SETTINGS: Final = {"search_type": "hybrid", "alpha": None, "fusion": "minmax"}


class KBRetriever(BaseRetriever):
    """Searches a knowledge base: a query in, nodes with scores out, best first.

    A node has the chunk's id, its text, its metadata as JSON values, its offsets, and its document as `SOURCE` (hence
    `ref_doc_id`); the chunks around it as `PREVIOUS` and `NEXT`, where the knowledge base has `neighbours`, as a
    `LocalKB` has. What a model reads of it is `[Score: 0.700] text`; see `KBNode`. Nodes are fresh objects at each
    call.

    Of a `QueryBundle`, `query_str` is what the keyword matcher looks for, and `custom_embedding_strs`, such as the
    hypothetical documents of HyDE, are what the vector matcher looks for: the mean of their vectors. An `embedding` is
    ignored, unless `use_query_embedding`: other retrievers leave the vector of their own model there.

    Args:
        kb: What is searched: a `LocalKB`, a `PlatformKB`, anything with their surface.
        top_k: How many nodes at most, 0 or more; 5.
        similarity_top_k: `top_k` by its name in LlamaIndex.
        where: A filter over metadata, see `kb_core.filters`.
        filters: A filter in LlamaIndex's terms; where both are given, both hold.
        min_score: Drop hits whose score is lower.
        search_type: `"hybrid"`, `"vector"` or `"keyword"`; None: as the knowledge base is set.
        alpha: The vector matcher's weight in hybrid search, in [0, 1]; None: as the knowledge base is set.
        scored: Whether what a model reads begins with the score.
        llm_metadata_keys: Metadata that the model reads below the text, as in `(source: policy.md, page: 3)`.
        use_query_embedding: Let the vector matcher look for `QueryBundle.embedding` where there is one. It must be of
            the knowledge base's own embedder.
        callback_manager: LlamaIndex's.
        verbose: LlamaIndex's.

    Raises:
        ValueError, TypeError: An argument is out of range or of another type.
        InvalidFilterError: `where` is not in the dialect, or `filters` cannot be said in it.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        top_k: int | None = None,
        *,
        similarity_top_k: int | None = None,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        min_score: float | None = None,
        search_type: str | None = None,
        alpha: float | None = None,
        scored: bool = True,
        llm_metadata_keys: Sequence[str] = (),
        use_query_embedding: bool = False,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        # The protocol's own check would read `description`, which may be a request to a server.
        if not all(callable(getattr(kb, verb, None)) for verb in ("search", "asearch")):
            raise TypeError(f"kb must be a knowledge base such as LocalKB, got {type(kb).__name__}")
        if top_k is not None and similarity_top_k is not None:
            raise TypeError("similarity_top_k is top_k by another name: give one of them, got both")
        if isinstance(llm_metadata_keys, str):
            raise TypeError(f"llm_metadata_keys must be a list of keys, got the str {llm_metadata_keys!r:.60}")
        given = similarity_top_k if top_k is None else top_k
        self.kb = kb
        self.top_k = _DEFAULT_TOP_K if given is None else given
        self._options = {
            "search_type": search_type,
            "alpha": alpha,
            "where": deepcopy(bound_filter(where, filters)),
            "min_score": min_score,
        }
        request_of(_ANY_SETTINGS, "", self.top_k, self._options)  # says what is wrong before the first search
        self._is_scored = scored
        self._shown = tuple(llm_metadata_keys)
        self._uses_query_embedding = use_query_embedding
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    @property
    def top_k(self) -> int:
        """How many nodes at most. It can be set, as in LlamaIndex's own retrievers."""
        return self._top_k

    @top_k.setter
    def top_k(self, top_k: int) -> None:
        self._top_k = check_top_k(top_k)

    similarity_top_k = top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = self.kb.search(query_bundle.query_str, self.top_k, **self._options_for(query_bundle))
        neighbours = getattr(self.kb, "neighbours", None)
        around = neighbours(_ids(results)) if neighbours is not None and results else {}
        return self._nodes(results, around)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = await self.kb.asearch(query_bundle.query_str, self.top_k, **self._options_for(query_bundle))
        neighbours = getattr(self.kb, "aneighbours", None)
        around = await neighbours(_ids(results)) if neighbours is not None and results else {}
        return self._nodes(results, around)

    def _options_for(self, query: QueryBundle) -> dict[str, Any]:
        if self._uses_query_embedding and query.embedding is not None:
            return {**self._options, "vector_query": query.embedding}
        texts = query.custom_embedding_strs
        # LlamaIndex's transforms make bundles whose only such text is the query: a plain search.
        return {**self._options, "vector_query": texts} if texts and texts != [query.query_str] else self._options

    def _nodes(self, results: list[SearchResult], around: Mapping[str, Neighbours]) -> list[NodeWithScore]:
        return [
            node_of(result, around.get(result.chunk.id), is_scored=self._is_scored, shown=self._shown)
            for result in results
        ]


def _ids(results: list[SearchResult]) -> list[str]:
    return [result.chunk.id for result in results]
