"""Fusion of a vector list and a keyword list into one ranking: pure functions, no state.

What all three methods share:

* Chunks are matched by id, and a chunk that is absent from one list gets 0 for it. An id given twice in one list counts
  once, with its best score. The order of the hits in a list is of no consequence.
* When one list is empty there is nothing to fuse: the other comes back with its raw scores, and `score_type` says so.
* A list whose scores are all equal has no range to normalise by. Its hits are all the best there is, so they get 1;
  but 0 where that score is not above 0, as all cosines are with a zero query vector, which matches nothing.
* The result is ordered by score, best first, ties by id, so that it never depends on the hash seed.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

from kb_core.documents import ScoreType
from kb_core.protocols import Hit

RRF_K: Final = 60
"""The constant of reciprocal rank fusion, as in Cormack et al., who found the outcome not sensitive to it."""

# Absurd for a cosine or BM25, and small enough that sums and squares stay finite.
_LARGEST_SCORE: Final = 1e100

FusionName = Literal["minmax", "rrf", "dbsf"]

_Scores = dict[str, float]


class Fused(NamedTuple):
    """A chunk id with its final score, and the raw ones that it came from.

    Attributes:
        id: The chunk's id.
        score: What it is ranked by, larger is better.
        score_type: `"fused"`, or `"cosine"` or `"bm25"` where only one matcher found anything.
        vector_score: The raw cosine; None where the vector list lacks the chunk.
        keyword_score: The raw BM25 score; None where the keyword list lacks the chunk.
    """

    id: str
    score: float
    score_type: ScoreType
    vector_score: float | None = None
    keyword_score: float | None = None


def fuse(name: str, vector: Iterable[Hit], keyword: Iterable[Hit], alpha: float) -> list[Fused]:
    """Fuse by the method called `name`: `"minmax"`, `"rrf"` or `"dbsf"`.

    Raises:
        ValueError: Another name; also as the methods do.
        TypeError: As the methods do.
    """
    return _METHODS[check_fusion(name)](vector, keyword, alpha)


def min_max(vector: Iterable[Hit], keyword: Iterable[Hit], alpha: float) -> list[Fused]:
    """Fuse by convex combination: `alpha * v + (1 - alpha) * k`, each list min-max normalised to [0, 1].

    Studied as the convex combination with theoretical or empirical minimum in Bruch, Gai, Ingber: An Analysis of Fusion
    Functions for Hybrid Retrieval (ACM TOIS 42, 2023).

    Args:
        vector: Ids and cosines.
        keyword: Ids and BM25 scores.
        alpha: The weight of the vector list, in [0, 1].

    Returns:
        Every chunk of both lists; scores in [0, 1], relative to these very candidates.

    Raises:
        ValueError: `alpha` is out of range, or a score is not finite.
        TypeError: `alpha` is no number.
    """
    return _combine(vector, keyword, alpha, _min_max)


def reciprocal_rank(vector: Iterable[Hit], keyword: Iterable[Hit], alpha: float, *, k: int = RRF_K) -> list[Fused]:
    """Fuse by rank: the sum of `w / (k + rank)` over both lists, `w` being `2 * alpha` and `2 * (1 - alpha)`.

    At `alpha=0.5` this is the sum of Cormack, Clarke, Büttcher: Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods (SIGIR 2009). Hits with equal raw scores share the best rank among them
    (1, 2, 2, 4), so that an arbitrary order among equals cannot outvote the other list.

    Args:
        vector: Ids and cosines.
        keyword: Ids and BM25 scores.
        alpha: The weight of the vector list, in [0, 1].
        k: Above 0; the larger, the less the first ranks stand out.

    Returns:
        Every chunk of both lists; scores in [0, 2 / (k + 1)]: 0.033 at most for k = 60.

    Raises:
        ValueError: `alpha` or `k` is out of range, or a score is not finite.
        TypeError: `alpha` is no number.
    """
    if k <= 0:
        raise ValueError(f"k must be above 0, got {k}")
    return _combine(vector, keyword, alpha, lambda scores: _reciprocal_ranks(scores, k))


def distribution_based(vector: Iterable[Hit], keyword: Iterable[Hit], alpha: float) -> list[Fused]:
    """Fuse like `min_max`, but with the mean minus and plus three standard deviations as the ends of the range.

    Distribution-based score fusion: M. Mazzanti (2023), adopted by Qdrant; less moved by one outlier than `min_max`.
    As in Qdrant, the standard deviation is that of a sample (n - 1). Unlike there, scores beyond the range are clipped
    to it, the lists are weighted, and equal scores map to 1 and not 0.5.

    Args:
        vector: Ids and cosines.
        keyword: Ids and BM25 scores.
        alpha: The weight of the vector list, in [0, 1].

    Returns:
        Every chunk of both lists; scores in [0, 1].

    Raises:
        ValueError: `alpha` is out of range, or a score is not finite.
        TypeError: `alpha` is no number.
    """
    return _combine(vector, keyword, alpha, _three_sigma)


def normalise(name: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Give what each raw score of one list counts before it is weighed, as the method called `name` does.

    A fused score is `alpha` times this of the vector list plus `1 - alpha` times this of the keyword list.

    Args:
        name: `"minmax"`, `"rrf"` or `"dbsf"`.
        scores: The whole list, by chunk id.

    Raises:
        ValueError: Another name.
    """
    return _NORMALISERS[check_fusion(name)](dict(scores)) if scores else {}


def check_alpha(alpha: object) -> float:
    """Give `alpha` as a plain float.

    Raises:
        TypeError: It is no number; a bool is none.
        ValueError: It is not in [0, 1].
    """
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(f"alpha must be a number from 0 to 1, got {type(alpha).__name__}")
    number: Any = alpha  # what is a Real is comparable, which its type does not say
    if not 0 <= number <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {number}")
    return float(number)


def check_fusion(name: str) -> str:
    """Give the name back. Raises `ValueError` where no method is called so."""
    if name not in _METHODS:
        raise ValueError(f"fusion must be one of {', '.join(_METHODS)}, got {name!r}")
    return name


_METHODS: Final[dict[str, Callable[[Iterable[Hit], Iterable[Hit], float], list[Fused]]]] = {
    "minmax": min_max,
    "rrf": reciprocal_rank,
    "dbsf": distribution_based,
}


def _combine(
    vector: Iterable[Hit], keyword: Iterable[Hit], alpha: float, normalise: Callable[[_Scores], _Scores]
) -> list[Fused]:
    alpha = check_alpha(alpha)
    cosines, bm25 = _best_scores(vector), _best_scores(keyword)
    if not bm25:
        return _ranked(Fused(id_, score, "cosine", vector_score=score) for id_, score in cosines.items())
    if not cosines:
        return _ranked(Fused(id_, score, "bm25", keyword_score=score) for id_, score in bm25.items())
    v, k = normalise(cosines), normalise(bm25)
    return _ranked(
        Fused(id_, alpha * v.get(id_, 0.0) + (1 - alpha) * k.get(id_, 0.0), "fused", cosines.get(id_), bm25.get(id_))
        for id_ in cosines.keys() | bm25.keys()
    )


def _ranked(results: Iterable[Fused]) -> list[Fused]:
    return sorted(results, key=lambda result: (-result.score, result.id))


def _best_scores(hits: Iterable[Hit]) -> _Scores:
    best: _Scores = {}
    for id_, raw in hits:
        score = float(raw) + 0.0  # numpy's float32 is no JSON; adding 0 turns -0.0, which prints as "-0.000", into 0.0
        if not abs(score) <= _LARGEST_SCORE:
            raise ValueError(f"the score of chunk {id_!r} must be finite, got {score}")
        if id_ not in best or score > best[id_]:
            best[id_] = score
    return best


def _is_flat(scores: _Scores) -> bool:
    return min(scores.values()) == max(scores.values())


def _flat(scores: _Scores, *, top: float = 1.0) -> _Scores:
    return {id_: top if score > 0 else 0.0 for id_, score in scores.items()}


def _min_max(scores: _Scores) -> _Scores:
    if _is_flat(scores):
        return _flat(scores)
    low, high = min(scores.values()), max(scores.values())
    return {id_: (score - low) / (high - low) for id_, score in scores.items()}


def _reciprocal_ranks(scores: _Scores, k: int) -> _Scores:
    if _is_flat(scores):
        return _flat(scores, top=2 / (k + 1))
    rank_of: dict[float, int] = {}
    for rank, score in enumerate(sorted(scores.values(), reverse=True), start=1):
        rank_of.setdefault(score, rank)
    return {id_: 2 / (k + rank_of[score]) for id_, score in scores.items()}


def _three_sigma(scores: _Scores) -> _Scores:
    if _is_flat(scores):
        return _flat(scores)
    mean = fmean(scores.values())  # like fsum, exact: the order of the hits cannot show
    sigma = math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / (len(scores) - 1))
    if sigma == 0:  # unequal, but by less than a float can square
        return _flat(scores)
    low = mean - 3 * sigma
    return {id_: min(1.0, max(0.0, (score - low) / (6 * sigma))) for id_, score in scores.items()}


_NORMALISERS: Final[dict[str, Callable[[_Scores], _Scores]]] = {
    "minmax": _min_max,
    "rrf": lambda scores: _reciprocal_ranks(scores, RRF_K),
    "dbsf": _three_sigma,
}
