"""What a model reads, `[Score: 0.700] …`, what a program reads beside it, and the names of tools."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from kb_core.documents import SearchResult
from kb_core.metadata import json_safe_metadata

NO_RESULTS: Final = "No results found."

_PREFIX: Final = "search_"
_MAX_NAME: Final = 64
# OpenAI and Anthropic refuse other names with HTTP 400; Gemini also wants a letter first, which the prefix gives.
_LEGAL_NAME: Final = re.compile(f"[a-zA-Z0-9_-]{{1,{_MAX_NAME}}}")


class SearchText(str):
    """The text of a search for a model, which remembers the results that it was made of.

    A plain string to everything that reads it; frameworks that hand a tool's output on as the object it was get
    citations from `results`. Copies and pickles keep them.
    """

    __slots__ = ("results",)

    results: list[SearchResult]

    def __new__(cls, text: str, results: Iterable[SearchResult] = ()) -> Self:
        made = super().__new__(cls, text)
        made.results = list(results)
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, list[SearchResult]]]:
        # The default would rebuild it from the text alone; agent SDKs deep-copy and checkpoint what tools return.
        return type(self), (str(self), self.results)


def score_prefix(score: float) -> str:
    """Give what stands before the text of a hit: `[Score: 0.700] `, three digits, whatever the `score_type`."""
    return f"[Score: {score:.3f}] "


def format_result(result: SearchResult, metadata_keys: Sequence[str] = ()) -> str:
    """Format one hit: `[Score: 0.700] <content>`.

    Args:
        result: The hit; its score is shown with three digits, whatever its `score_type`.
        metadata_keys: Metadata to show below the text, as in `(source: policy.md, page: 3)`; keys that the chunk lacks
            are left out.
    """
    line = score_prefix(result.score) + result.chunk.content
    if not metadata_keys:
        return line
    metadata = json_safe_metadata(result.chunk.metadata)
    shown = ", ".join(f"{key}: {metadata[key]}" for key in metadata_keys if key in metadata)
    return f"{line}\n({shown})" if shown else line


def format_results(results: Iterable[SearchResult], metadata_keys: Sequence[str] = ()) -> str:
    """Format hits in their order, with a blank line between them; `No results found.` where there is none."""
    return "\n\n".join(format_result(result, metadata_keys) for result in results) or NO_RESULTS


def result_dict(result: SearchResult) -> dict[str, Any]:
    """Give a hit as one flat dict of strictly valid JSON values, for artifacts, checkpoints and `--json`."""
    chunk = result.chunk
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "content": chunk.content,
        "score": result.score,
        "score_type": result.score_type,
        "vector_score": result.vector_score,
        "keyword_score": result.keyword_score,
        "source": str(chunk.metadata.get("source", "")),
        "metadata": json_safe_metadata(chunk.metadata),
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "index": chunk.index,
        "also_in": list(result.also_in),
    }


def tool_name(kb_name: str) -> str:
    """Name the search tool of a knowledge base: `search_<name>`, legal with every provider: `[a-zA-Z0-9_-]{1,64}`.

    A name that is legal stays as it is. In any other, accents are dropped, runs of what is not allowed become one `_`,
    and six hex digits of the SHA-256 of the name follow, so that two knowledge bases don't share a name by accident.

    Raises:
        ValueError: The name is blank.
        TypeError: The name is no string.
    """
    if not isinstance(kb_name, str):
        raise TypeError(f"the name of a knowledge base must be str, got {type(kb_name).__name__}")
    if not kb_name.strip():
        raise ValueError(f"the name of a knowledge base must not be blank, got {kb_name!r}")
    name = _PREFIX + kb_name
    if is_legal_tool_name(name):
        return name
    digest = hashlib.sha256(kb_name.encode(errors="surrogatepass")).hexdigest()[:6]
    unaccented = "".join(char for char in unicodedata.normalize("NFKD", kb_name) if not unicodedata.combining(char))
    readable = re.sub("[^a-zA-Z0-9-]+", "_", unaccented).strip("_-")
    readable = readable[: _MAX_NAME - len(_PREFIX) - len(digest) - 1].rstrip("_-")
    return _PREFIX + (f"{readable}_{digest}" if readable else digest)


def is_legal_tool_name(name: str) -> bool:
    """Tell whether every provider takes this as the name of a tool."""
    return _LEGAL_NAME.fullmatch(name) is not None
