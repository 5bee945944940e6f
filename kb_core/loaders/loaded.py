"""What a loader gets and gives: limits in, extracted texts and documents out."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kb_core.documents import Document
from kb_core.errors import LoaderError


@dataclass(frozen=True)
class Limits:
    """What one file may cost; beyond it loading ends with a `LoaderError`.

    Attributes:
        max_bytes: Size of the file, and of the XML inside a .docx once unpacked.
        max_chars: Length of the text taken from it. A small file can hold a large one: a 1 MB header repeated for each
            row of a table, an archive of zeros.
        max_pages: Pages of a PDF.
        page_seconds: For opening a PDF, and for each of its pages.
        file_seconds: For all of a PDF.
    """

    max_bytes: int = 100 * 2**20
    max_chars: int = 100 * 2**20
    max_pages: int = 10_000
    page_seconds: float = 30.0
    file_seconds: float = 600.0


@dataclass
class ExtractedText:
    """One document to be, without what all documents of a file share.

    Attributes:
        content: The text.
        metadata: What the file says about it.
        key: Tells it from the others of its file and stays the same when others are put in front of it; may be empty.
    """

    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass
class Extracted:
    """What a loader found in a file.

    Attributes:
        texts: In file order; none where the file holds no text.
        warnings: For a person; without the file's name.
        page_starts: See `LoadedFile.page_starts`.
    """

    texts: list[ExtractedText]
    warnings: list[str] = field(default_factory=list)
    page_starts: list[int] = field(default_factory=list)


Loader = Callable[[bytes, str, Limits], Extracted]
"""Reads one family of files: `load(data, suffix, limits)`, where the suffix is in lower case with its dot.

Raises `LoaderError` or `UnsupportedFormatError` with a reason that does not name the file.
"""


@dataclass(frozen=True)
class LoadedFile:
    """A file as documents.

    Attributes:
        source: The path as it was given, with forward slashes: the `source` of every document.
        documents: One; for JSON records that have a text field, one a record. A file without text gives one document
            with blank content, so that it can take the place of what the file held before.
        warnings: What a person should know: a guessed encoding, replaced characters, pages without text.
        page_starts: For a PDF, where each page starts in the content of its only document, in characters, one number a
            page; else empty.
    """

    source: str
    documents: list[Document]
    warnings: list[str] = field(default_factory=list)
    page_starts: list[int] = field(default_factory=list)

    def page_of(self, start_char: int) -> int | None:
        """Give the page, from 1, that holds the character at `start_char`; None where the file has no pages."""
        return bisect_right(self.page_starts, start_char) or None


class TextBuilder:
    """Collects pieces of text, up to a limit.

    Args:
        max_chars: The sum of lengths, seams included, that is still right.
    """

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._n_chars = 0
        self._pieces: list[str] = []

    def add(self, text: str, seam: str = "") -> None:
        """Append `text`, and `seam` in front of it where it is not the first piece.

        Raises:
            LoaderError: The text has become longer than `max_chars`.
        """
        piece = seam + text if self._pieces else text
        self._n_chars += len(piece)
        if self._n_chars > self._max_chars:
            raise LoaderError(
                f"its text is longer than {self._max_chars:,} characters, the most that is read of a file"
            )
        self._pieces.append(piece)

    def __str__(self) -> str:
        return "".join(self._pieces)
