"""Every error that kb-core raises on purpose.

```
KBError
├── SourceNotFoundError            (also FileNotFoundError)
├── UnsupportedFormatError
├── LoaderError
├── InvalidFilterError             (also ValueError)
├── EmbedderError
│   ├── EmbedderMismatchError
│   └── EmbedderUnavailableError
├── StoreError
│   ├── StoreLockedError
│   ├── StoreVersionError
│   └── StoreReadOnlyError
└── PlatformError
    ├── PlatformAuthError
    ├── PlatformNotFoundError
    ├── PlatformRateLimitError
    └── PlatformUnavailableError
```

The message of each is safe to show to a model: it names what was wrong, the value that came and what would be right,
and holds no key, no document text and no stack. Wrong arguments are `ValueError` or `TypeError`.
"""


class KBError(Exception):
    """Root of every expected failure of a knowledge base."""


class SourceNotFoundError(KBError, FileNotFoundError):
    """A path that was to be added is not there."""

    def __str__(self) -> str:  # FileNotFoundError would print an errno that we do not have
        return str(self.args[0]) if self.args else ""


class UnsupportedFormatError(KBError):
    """No loader reads this kind of file."""


class LoaderError(KBError):
    """A file of a known kind could not be read: damaged, encrypted, empty of text."""


class InvalidFilterError(KBError, ValueError):
    """A `where` filter is not in the dialect; nothing was searched."""


class EmbedderError(KBError):
    """An embedder failed or broke its contract: wrong count, wrong shape, not finite."""


class EmbedderMismatchError(EmbedderError):
    """A knowledge base was built with another embedder than the one that is given."""


class EmbedderUnavailableError(EmbedderError):
    """An embedding model or service cannot be reached or is not installed."""


class StoreError(KBError):
    """A store failed: the data on disk or the engine behind it."""


class StoreLockedError(StoreError):
    """Another process holds the store, and waiting for it took too long."""


class StoreVersionError(StoreError):
    """The store was written by a newer release; it was left untouched."""


class StoreReadOnlyError(StoreError):
    """A write was asked of a store that was opened read-only."""


class PlatformError(KBError):
    """The platform answered with an error."""


class PlatformAuthError(PlatformError):
    """The API key is missing, wrong, revoked, or lacks the scope."""


class PlatformNotFoundError(PlatformError):
    """The platform has no such knowledge base, document or chunk, or this key may not see it."""


class PlatformRateLimitError(PlatformError):
    """Too many requests.

    Attributes:
        retry_after: Seconds until the platform takes the next request; None where it did not say.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PlatformUnavailableError(PlatformError):
    """The platform could not be reached, or answered 5xx, within the budget of retries."""
