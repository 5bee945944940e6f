"""A knowledge base for agents: documents go in, scored chunks come out."""

from kb_core._version import __version__
from kb_core.documents import AddReport, Chunk, Document, Failure, SearchResult
from kb_core.errors import (
    EmbedderError,
    EmbedderMismatchError,
    EmbedderUnavailableError,
    InvalidFilterError,
    KBError,
    LoaderError,
    PlatformAuthError,
    PlatformError,
    PlatformNotFoundError,
    PlatformRateLimitError,
    PlatformUnavailableError,
    SourceNotFoundError,
    StoreError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreVersionError,
    UnsupportedFormatError,
)
from kb_core.local import LocalKB

__all__ = [
    "AddReport",
    "Chunk",
    "Document",
    "EmbedderError",
    "EmbedderMismatchError",
    "EmbedderUnavailableError",
    "Failure",
    "InvalidFilterError",
    "KBError",
    "LoaderError",
    "LocalKB",
    "PlatformAuthError",
    "PlatformError",
    "PlatformNotFoundError",
    "PlatformRateLimitError",
    "PlatformUnavailableError",
    "SearchResult",
    "SourceNotFoundError",
    "StoreError",
    "StoreLockedError",
    "StoreReadOnlyError",
    "StoreVersionError",
    "UnsupportedFormatError",
    "__version__",
]
