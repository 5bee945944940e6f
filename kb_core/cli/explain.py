"""`kb search --explain`: how the score of a hit came about, in words and as JSON."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb_core.explanation import Explanation, Part

_MATCHERS = {"vector": "cosine", "keyword": "BM25"}


def explanation_dict(hit: "Explanation") -> dict[str, Any]:
    """Give an explanation as JSON values; `vector.contribution + keyword.contribution` is the score."""
    return {
        "fusion": hit.fusion,
        "alpha": None if hit.vector is None else hit.vector.weight,
        "vector": _part_dict(hit.vector, hit.result.vector_score),
        "keyword": _part_dict(hit.keyword, hit.result.keyword_score),
    }


def _part_dict(part: "Part | None", raw: float | None) -> dict[str, Any]:
    if part is None:
        return {"raw": raw, "is_candidate": raw is not None, "normalised": None, "weight": None, "contribution": None}
    return {
        "raw": raw,
        "is_candidate": part.is_candidate,
        "normalised": part.normalised,
        "weight": part.weight,
        "contribution": part.contribution,
    }


def explanation_lines(hit: "Explanation") -> list[str]:
    """Explain a hit in lines of text: one a matcher, one for the score."""
    result = hit.result
    lines = []
    for matcher, part in (("vector", hit.vector), ("keyword", hit.keyword)):
        raw = result.vector_score if matcher == "vector" else result.keyword_score
        if part is not None or raw is not None:
            lines.append(f"{matcher + ':':8} {_MATCHERS[matcher]:6} {_part_text(part, raw)}")
    if hit.vector is None or hit.keyword is None:
        lines.append(f"score:   {result.score:.4f}, as that matcher gave it: nothing to fuse")
    else:
        sum_ = f"{hit.vector.contribution:.4f} + {hit.keyword.contribution:.4f} = {result.score:.4f}"
        lines.append(f"score:   {sum_} ({hit.fusion})")
    return lines


def _part_text(part: "Part | None", raw: float | None) -> str:
    shown = "-" if raw is None else f"{raw:.4f}"
    if part is None:
        return shown
    if not part.is_candidate:
        reason = "no term in common" if raw is None else "not among its candidates"
        return f"{shown}, {reason}: 0 x {part.weight:.2f} = 0.0000"
    return f"{shown}, normalised {part.normalised:.4f} x {part.weight:.2f} = {part.contribution:.4f}"
