"""A knowledge base as a LangChain retriever."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables.base import RunnableSerializable
from langchain_core.runnables.utils import AnyConfigurableField
from pydantic import ConfigDict, Field, FiniteFloat, field_validator, model_validator

from kb_core.documents import SearchResult
from kb_core.filters import parse_filter
from kb_core.formatting import format_result, result_dict
from kb_core.protocols import KnowledgeBase

_SEARCH_OPTIONS: Final = ("top_k", "where", "min_score", "search_type", "alpha")

_OF_THE_CHUNK: Final = ("chunk_id", "document_id", "source", "start_char", "end_char", "index")
"""The keys of a document's metadata that are the same for every query."""

_OF_THE_SEARCH: Final = ("score_type", "vector_score", "keyword_score", "also_in")


class KBRetriever(BaseRetriever):
    """Searches a knowledge base: a query in, LangChain documents out, best first.

    Each document has the chunk's id; its metadata is the chunk's own, as JSON values, with `chunk_id`, `document_id`,
    `source`, `start_char`, `end_char`, `index`, and `score`, `score_type`, `vector_score`, `keyword_score`, `also_in`
    (see `kb_core.SearchResult`). Where a chunk's own metadata has one of these keys, it is hidden. Documents are fresh
    objects at each call.

    `top_k` (or `k`), `where`, `min_score`, `search_type` and `alpha` can be given here, at a call
    (`retriever.invoke(query, top_k=3)`), by `.bind(top_k=3)` and by `.configurable_fields(top_k=ConfigurableField(…))`.
    At a call they take the place of what was given here; None stands for what was given here, and `where={}` for no
    filter. A filter that a caller must not be able to replace belongs to `kb_tool`, or is bound in your own function.

    `page_content` is `[Score: 0.700] text`, which suits a prompt. Chains that compare or rerank texts want
    `scored_content=False`: `EnsembleRetriever` takes documents of other content for other documents (unless it is given
    `id_key="chunk_id"`), and a reranker would score the prefix too. `MultiQueryRetriever` compares metadata as well:
    give it `scored_content=False, score_key=None`.

    Attributes:
        kb: What is searched: a `LocalKB`, a `PlatformKB`, anything with their surface.
        top_k: How many documents at most, 0 or more; also `k`.
        where: A filter over metadata, see `kb_core.filters`.
        min_score: Drop hits whose score is lower.
        search_type: `"hybrid"`, `"vector"` or `"keyword"`; None: as the knowledge base is set.
        alpha: The vector matcher's weight in hybrid search, in [0, 1]; None: as the knowledge base is set.
        score_key: The metadata key of the score; rerankers of LangChain use `"relevance_score"`. None leaves out
            everything that depends on the query, so that one chunk found twice is one document.
        scored_content: Whether `page_content` begins with the score.

    Raises:
        ValidationError: A field is unknown or has a wrong value. It is a `ValueError`.
        TypeError: `k` and `top_k` are both given; at a call, also for unknown arguments.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    # A field, not a private attribute: `configurable_fields` makes the object anew from its fields.
    kb: KnowledgeBase = Field(exclude=True, repr=False)
    top_k: int = Field(default=5, ge=0, strict=True)
    where: Mapping[str, Any] | None = None
    min_score: FiniteFloat | None = None
    search_type: str | None = None
    alpha: float | None = Field(default=None, ge=0, le=1)
    score_key: str | None = "score"
    scored_content: bool = True

    @model_validator(mode="before")
    @classmethod
    def _accept_k(cls, fields: Any) -> Any:
        # A retriever that is made already, where one is a field of another model.
        return _with_top_k(fields) if isinstance(fields, dict) else fields

    @field_validator("kb", mode="plain")
    @classmethod
    def _check_kb(cls, kb: KnowledgeBase) -> KnowledgeBase:
        # The protocol's own check would read `description`, which may be a request to a server.
        if not all(callable(getattr(kb, verb, None)) for verb in ("search", "asearch")):
            raise ValueError(f"kb must be a knowledge base such as LocalKB, got {type(kb).__name__}")
        return kb

    @field_validator("where", mode="plain")
    @classmethod
    def _check_where(cls, where: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if where is not None:
            parse_filter(where)
        return deepcopy(where)

    @field_validator("score_key")
    @classmethod
    def _check_score_key(cls, score_key: str | None) -> str | None:
        if score_key in {*_OF_THE_CHUNK, *_OF_THE_SEARCH}:
            raise ValueError(f"score_key must not be {score_key!r}, which holds something else")
        return score_key

    def configurable_fields(self, **kwargs: AnyConfigurableField) -> RunnableSerializable[str, list[Document]]:
        """Make fields configurable at run time, `k` being `top_k`. See `RunnableSerializable.configurable_fields`."""
        return super().configurable_fields(**_with_top_k(kwargs))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return [self._document(result) for result in self.kb.search(query, **self._settled(options))]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return [self._document(result) for result in await self.kb.asearch(query, **self._settled(options))]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.kb).__name__
        return params

    def _settled(self, options: dict[str, Any]) -> dict[str, Any]:
        """Complete the options of a call with those of the retriever."""
        given = _with_top_k(options)
        given.pop("verbose", None)  # LangChain's own, which it reads and hands on
        unknown = [name for name in given if name not in _SEARCH_OPTIONS]
        if unknown:
            taken = ", ".join(("k", *_SEARCH_OPTIONS))
            raise TypeError(f"KBRetriever takes {taken} at a call, got {', '.join(unknown)}")
        return {name: getattr(self, name) if given.get(name) is None else given[name] for name in _SEARCH_OPTIONS}

    def _document(self, result: SearchResult) -> Document:
        fields = result_dict(result)
        metadata = fields["metadata"] | {key: fields[key] for key in _OF_THE_CHUNK}
        if self.score_key is not None:
            metadata |= {key: fields[key] for key in _OF_THE_SEARCH}
            metadata[self.score_key] = fields["score"]
        content = format_result(result) if self.scored_content else fields["content"]
        return Document(id=fields["chunk_id"], page_content=content, metadata=metadata)


def _with_top_k(options: dict[str, Any]) -> dict[str, Any]:
    """Copy options, `k` renamed to `top_k`."""
    if "k" not in options:
        return dict(options)
    if "top_k" in options:
        raise TypeError("k is top_k by another name: give one of them, got both")
    return {"top_k" if name == "k" else name: value for name, value in options.items()}
