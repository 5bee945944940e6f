"""What a knowledge base offers to those who search it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kb_core.documents import SearchResult

if TYPE_CHECKING:
    from kb_core.tool import KBTool


@runtime_checkable
class KnowledgeBase(Protocol):
    """What every knowledge base offers, in this process or over HTTP, and all that an adapter knows."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What is in it: one or two sentences for a model that chooses among tools; may be empty."""
        ...

    def search(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        vector_query: Sequence[str] | Sequence[float] | None = None,
    ) -> list[SearchResult]:
        """Rank chunks for a query, best first.

        Args:
            query: Text; blank gives `[]`.
            top_k: How many at most; 0 gives `[]`.
            search_type: `"hybrid"`, `"vector"` or `"keyword"`; None: the knowledge base's own setting.
            alpha: The vector matcher's weight in hybrid search, in [0, 1]; None: the setting, else the embedder's.
            where: A filter over metadata, see `kb_core.filters`.
            min_score: Drop hits whose returned `score` is lower.
            vector_query: What the vector matcher looks for in place of `query`: texts, whose vectors are averaged, such
                as hypothetical answers (HyDE, Gao et al., ACL 2023); or one vector of the knowledge base's own
                embedder, (d,). None: `query`. With it a blank `query` is a search by vector alone.

        Raises:
            ValueError, TypeError: An argument is out of range or of another type.
            InvalidFilterError: `where` is not in the dialect.
            KBError: Anything else that is expected to go wrong; the message is safe to show a model.
        """
        ...

    async def asearch(
        self,
        query: str,
        top_k: int = 5,
        *,
        search_type: str | None = None,
        alpha: float | None = None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        vector_query: Sequence[str] | Sequence[float] | None = None,
    ) -> list[SearchResult]:
        """Do as `search`, without blocking the event loop."""
        ...

    def as_tool(self) -> "KBTool":
        """Give the search as a tool for a model."""
        ...

    def status(self) -> dict[str, Any]:
        """Tell what it holds, JSON-safe."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless."""
        ...
