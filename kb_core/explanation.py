"""How the score of a hit came about, from the candidates that it was ranked among."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb_core.documents import SearchResult
from kb_core.fusion import Fused, normalise


@dataclass(frozen=True)
class Part:
    """What one matcher adds to a fused score.

    Attributes:
        is_candidate: Whether the matcher's list held the chunk. It counts 0 where not, even if its raw score, filled
            in afterwards, is known.
        normalised: The raw score relative to the matcher's list, as the method of fusion sees it; in [0, 1] for
            `"minmax"` and `"dbsf"`.
        weight: `alpha` for the vector matcher, `1 - alpha` for the keyword matcher.
    """

    is_candidate: bool
    normalised: float
    weight: float

    @property
    def contribution(self) -> float:
        """`weight * normalised`: the score is the sum of both parts' contributions."""
        return self.weight * self.normalised


@dataclass(frozen=True)
class Explanation:
    """A hit and how it got its score.

    Attributes:
        result: The hit, as `search` returns it, with both raw scores.
        fusion: The method, `"minmax"`, `"rrf"` or `"dbsf"`; None where the score is one matcher's own: a search of one
            kind, or a hybrid search in which only one matcher found anything.
        vector: What the vector matcher adds; None where nothing was fused.
        keyword: What the keyword matcher adds; None where nothing was fused.
    """

    result: SearchResult
    fusion: str | None = None
    vector: Part | None = None
    keyword: Part | None = None


def explanations(
    results: Iterable[SearchResult], candidates: Sequence[Fused], *, fusion: str, alpha: float
) -> list[Explanation]:
    """Explain hits.

    Args:
        results: The hits.
        candidates: All that were ranked, the hits among them.
        fusion: The method that ranked them.
        alpha: The weight that it gave the vector matcher, in [0, 1].
    """
    vector = normalise(fusion, {it.id: it.vector_score for it in candidates if it.vector_score is not None})
    keyword = normalise(fusion, {it.id: it.keyword_score for it in candidates if it.keyword_score is not None})

    def explain(result: SearchResult) -> Explanation:
        if result.score_type != "fused":
            return Explanation(result)
        return Explanation(
            result, fusion, _part(result.chunk.id, vector, alpha), _part(result.chunk.id, keyword, 1 - alpha)
        )

    return [explain(result) for result in results]


def _part(chunk_id: str, normalised: dict[str, float], weight: float) -> Part:
    return Part(chunk_id in normalised, normalised.get(chunk_id, 0.0), weight)
