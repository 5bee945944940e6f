"""The settings of a knowledge base: checked before anything is touched, and kept in its store."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Final, get_args

from kb_core.analysis import Analyzer
from kb_core.chunking import Chunker
from kb_core.fusion import FusionName, check_alpha, check_fusion
from kb_core.opening import IndexType
from kb_core.protocols import MetadataStore
from kb_core.retrieval import SearchType, check_choice

SETTING = "settings"


class Keep(Enum):
    """Says "as it is stored", where None is a value of its own."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True)
class Settings:
    """What a knowledge base remembers of how it was made.

    Attributes:
        chunk_size: Characters a chunk, at most.
        chunk_overlap: Characters that neighbours share, at most.
        search_type: `"hybrid"`, `"vector"` or `"keyword"`.
        alpha: The vector matcher's weight in hybrid search; None: what suits the embedder.
        fusion: `"minmax"`, `"rrf"` or `"dbsf"`.
        index_type: Of the FAISS index: `"auto"`, `"flat"`, `"ivf"` or `"hnsw"`.
        language: Whose stems and stop words the keyword search knows, by its ISO 639-1 code; None: none.
        description: For a model that chooses among tools; empty: one made of the name.
    """

    chunk_size: int = 512
    chunk_overlap: int = 50
    search_type: SearchType = "hybrid"
    alpha: float | None = None
    fusion: FusionName = "minmax"
    index_type: IndexType = "auto"
    language: str | None = "en"
    description: str = ""

    def __post_init__(self) -> None:
        Chunker(self.chunk_size, self.chunk_overlap)
        check_choice("search_type", self.search_type, get_args(SearchType))
        if self.alpha is not None:
            check_alpha(self.alpha)
        check_fusion(self.fusion)
        check_choice("index_type", self.index_type, get_args(IndexType))
        Analyzer(self.language)

    @property
    def chunker(self) -> Chunker:
        """What cuts documents."""
        return Chunker(self.chunk_size, self.chunk_overlap)


def given_settings(**values: Any) -> dict[str, Any]:
    """Give those settings that a caller named, checked on their own.

    Raises:
        ValueError, TypeError: A value is out of range, whatever the store holds.
    """
    given = {
        name: value for name, value in values.items() if value is not KEEP and (value is not None or name == "language")
    }
    Settings(**_with_overlap(given))
    return given


def settle(truth: MetadataStore, given: Mapping[str, Any]) -> Settings:
    """Combine what was given with what the store remembers."""
    known = {field.name for field in fields(Settings)}
    stored = {name: value for name, value in (truth.get_setting(SETTING) or {}).items() if name in known}
    return Settings(**_with_overlap({**stored, **given}))


def remember(truth: MetadataStore, settings: Settings) -> None:
    """Keep the settings in the store, unless it holds the same."""
    if truth.get_setting(SETTING) != asdict(settings):
        truth.set_settings({SETTING: asdict(settings)})


def _with_overlap(values: dict[str, Any]) -> dict[str, Any]:
    """Shrink the default overlap where a small chunk size was named alone: nobody asked for what cannot be."""
    size = values.get("chunk_size")
    if "chunk_overlap" in values or not isinstance(size, int) or size > Settings.chunk_overlap:
        return values
    return {**values, "chunk_overlap": max(size // 10, 0)}
