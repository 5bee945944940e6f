"""The way out: a query, scored by two matchers side by side, fused into one ranking of chunks."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, get_args

import numpy as np

from kb_core.documents import Chunk, SearchResult, clean_text
from kb_core.explanation import Explanation, explanations
from kb_core.filters import Filter, parse_filter
from kb_core.fusion import Fused, FusionName, check_alpha, fuse
from kb_core.identity import EmbedderSlot
from kb_core.protocols import Embedder, Hit, MetadataStore, Selection, Vectors, check_top_k
from kb_core.threads import MATCHERS
from kb_core.views import Views

SearchType = Literal["hybrid", "vector", "keyword"]

POOL_FACTOR = 3
"""A search ranks `top_k * POOL_FACTOR` candidates of each matcher; fused scores are relative to that pool."""

_CACHED_QUERIES = 256
_CACHED_SELECTIONS = 16


@dataclass(frozen=True)
class Request:
    """A search with every argument checked and every default filled in; see `KnowledgeBase.search`."""

    query: str
    top_k: int
    search_type: SearchType
    alpha: float | None
    fusion: FusionName
    where: Filter | None
    min_score: float | None
    vector_query: tuple[str, ...] | Vectors | None = None


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Give a value that is one of the choices, or raise `ValueError` that lists them."""
    known = list(choices)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return str(value)


def check_query(query: object) -> str:
    """Give a query without what no store can hold, or raise `TypeError`."""
    if not isinstance(query, str):
        raise TypeError(f"query must be a str, got {type(query).__name__}")
    return clean_text(query).strip()


def check_vector_query(given: object) -> tuple[str, ...] | Vectors | None:
    """Give texts, or a vector (d,) of finite float32; or raise `TypeError` or `ValueError`."""
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise TypeError(f"vector_query must be a list of texts or one vector, got {type(given).__name__}")
    if all(isinstance(value, str) for value in given):
        return tuple(map(check_query, given))
    try:
        vector = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise TypeError("vector_query must hold texts alone or numbers alone") from None
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"vector_query must be one vector of finite numbers, got the shape {vector.shape}")
    return vector


class Retriever:
    """Answers requests from the truth and its views.

    Args:
        truth: Gives the chunks.
        views: The two matchers.
        slot: The embedder, not asked for it where nothing is to be embedded.
        collapse_duplicates: Return a text once, however many chunks hold it; the others' sources stand in `also_in`.
    """

    def __init__(
        self, truth: MetadataStore, views: Views, slot: EmbedderSlot, *, collapse_duplicates: bool = True
    ) -> None:
        self._truth = truth
        self._views = views
        self._slot = slot
        self._collapses = collapse_duplicates
        self._queries: OrderedDict[tuple[int, str], Vectors] = OrderedDict()
        self._selections: OrderedDict[tuple[Filter, int], Selection] = OrderedDict()
        self._lock = Lock()

    def search(self, request: Request) -> list[SearchResult]:
        """Answer a request: at most `request.top_k` results, best first, ties by chunk id."""
        return self._answer(request)[0]

    def explain(self, request: Request) -> list[Explanation]:
        """Answer a request as `search` does, and say how each score came about."""
        alpha = _alpha(request, self._embedder_for(request))
        return explanations(*self._answer(request), fusion=request.fusion, alpha=alpha)

    def _answer(self, request: Request) -> tuple[list[SearchResult], list[Fused]]:
        """Give the results and the candidates that they were ranked among."""
        if request.top_k == 0 or (not request.query and request.vector_query is None):
            return [], []
        vectors, keywords = self._views.catch_up()
        within = self._selection(request.where)
        embedder = self._embedder_for(request)

        def nearest(top_k: int, within: Selection | None) -> list[Hit]:
            return vectors.search(self._query_vector(request, embedder), top_k, within=within) if embedder else []

        def matching(top_k: int, within: Selection | None) -> list[Hit]:
            return keywords.search(request.query, top_k, within=within)

        matchers = (
            nearest if embedder is not None else _nothing,
            matching if request.search_type != "vector" else _nothing,
        )
        n_candidates = request.top_k * POOL_FACTOR
        while True:
            found = _side_by_side(matchers, n_candidates, within)
            fused = fuse(request.fusion, *found, alpha=_alpha(request, embedder))
            results = self._results(fused, request.top_k)
            if len(results) == request.top_k or max(map(len, found)) < n_candidates:
                break
            n_candidates *= 4  # the same texts over and over: look further for others
        _complete(results, matchers)
        kept = [result for result in results if request.min_score is None or result.score >= request.min_score]
        return kept, fused

    def _embedder_for(self, request: Request) -> Embedder | None:
        return None if request.search_type == "keyword" else self._slot.of_vectors()

    def _query_vector(self, request: Request, embedder: Embedder) -> Vectors:
        wanted = request.vector_query
        if not isinstance(wanted, tuple):
            return self._embed_query(request.query, embedder) if wanted is None else wanted
        return np.asarray(np.mean([self._embed_query(text, embedder) for text in wanted], axis=0), np.float32)

    def _embed_query(self, query: str, embedder: Embedder) -> Vectors:
        key = (id(embedder), query)
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
                return self._queries[key]
        vector = embedder.embed_query(query)
        with self._lock:
            self._queries[key] = vector
            if len(self._queries) > _CACHED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def _selection(self, where: Filter | None) -> Selection | None:
        if where is None:
            return None
        key = (where, self._truth.revision())
        with self._lock:
            selection = self._selections.get(key)
            if selection is None:
                selection = self._selections[key] = Selection(lambda: self._truth.select(where), where)
                if len(self._selections) > _CACHED_SELECTIONS:
                    self._selections.popitem(last=False)
        return selection

    def _results(self, fused: list[Fused], top_k: int) -> list[SearchResult]:
        """Give the first `top_k` candidates with distinct texts."""
        results: list[SearchResult] = []
        by_text: dict[str, SearchResult] = {}
        for start in range(0, len(fused), top_k):
            part = fused[start : start + top_k]
            if len(results) == top_k and part[0].score < results[-1].score:
                break  # copies of a text score the same: none can follow
            chunks = {chunk.id: chunk for chunk in self._truth.get_chunks([candidate.id for candidate in part])}
            for candidate in part:
                chunk = chunks.get(candidate.id)
                if chunk is None:  # deleted since the views were read
                    continue
                first = by_text.get(chunk.content) if self._collapses else None
                if first is not None:
                    _note_copy(first, chunk)
                elif len(results) < top_k:
                    results.append(_result(candidate, chunk))
                    by_text[chunk.content] = results[-1]
        return results


def _alpha(request: Request, embedder: Embedder | None) -> float:
    if request.alpha is not None:
        return request.alpha
    return 0.0 if embedder is None else embedder.default_alpha


Matcher = Callable[[int, Selection | None], list[Hit]]
"""Gives up to so many hits, within a selection."""


def _nothing(top_k: int, within: Selection | None) -> list[Hit]:
    return []


def _side_by_side(
    matchers: tuple[Matcher, Matcher], top_k: int, within: Selection | None
) -> tuple[list[Hit], list[Hit]]:
    """Run both matchers at once: each releases the GIL for most of its time, and the query's embedding does too."""
    nearest, matching = matchers
    if nearest is _nothing or matching is _nothing:
        return nearest(top_k, within), matching(top_k, within)
    started = MATCHERS.submit(lambda: nearest(top_k, within))
    try:
        keyword = matching(top_k, within)
    finally:
        vector = started.result()
    return vector, keyword


def _complete(results: list[SearchResult], matchers: tuple[Matcher, Matcher]) -> None:
    """Fill in the raw score of a matcher whose candidates a result was not among."""
    nearest, matching = matchers
    unscored = [result.chunk.id for result in results if result.vector_score is None]
    if unscored:
        found = dict(nearest(len(unscored), Selection(unscored)))
        for result in results:
            result.vector_score = found.get(result.chunk.id, result.vector_score)
    unmatched = [result.chunk.id for result in results if result.keyword_score is None]
    if unmatched:
        found = dict(matching(len(unmatched), Selection(unmatched)))
        for result in results:
            result.keyword_score = found.get(result.chunk.id, result.keyword_score)


def _result(candidate: Fused, chunk: Chunk) -> SearchResult:
    return SearchResult.model_construct(
        chunk=chunk,
        score=candidate.score,
        score_type=candidate.score_type,
        vector_score=candidate.vector_score,
        keyword_score=candidate.keyword_score,
        also_in=[],
    )


def _note_copy(first: SearchResult, copy: Chunk) -> None:
    source = copy.metadata.get("source", "")
    if source and source != first.chunk.metadata.get("source") and source not in first.also_in:
        first.also_in.append(source)


def request_of(defaults: Mapping[str, Any], query: object, top_k: object, given: Mapping[str, Any]) -> Request:
    """Check the arguments of a search and fill in what was not given.

    Args:
        defaults: `search_type`, `alpha`, `fusion` of the knowledge base.
        query: See `KnowledgeBase.search`.
        top_k: See `KnowledgeBase.search`.
        given: `search_type`, `alpha`, `where`, `min_score`, each None where the caller left it out, and `vector_query`.
    """
    search_type = given["search_type"] if given["search_type"] is not None else defaults["search_type"]
    check_choice("search_type", search_type, get_args(SearchType))
    alpha = given["alpha"] if given["alpha"] is not None else defaults["alpha"]
    min_score = given["min_score"]
    if min_score is not None and (isinstance(min_score, bool) or not isinstance(min_score, int | float)):
        raise TypeError(f"min_score must be a number, got {type(min_score).__name__}")
    where = given["where"]
    return Request(
        query=check_query(query),
        top_k=check_top_k(top_k),
        search_type=search_type,
        alpha=None if alpha is None else check_alpha(alpha),
        fusion=defaults["fusion"],
        where=None if where is None else parse_filter(where),
        min_score=min_score,
        vector_query=check_vector_query(given.get("vector_query")),
    )
