"""The settings of chunking, and the door to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kb_core.chunking.cutter import Cutter
from kb_core.chunking.spans import Span


@dataclass(frozen=True, slots=True)
class Chunker:
    """Cuts texts into overlapping chunks. The rules stand in `kb_core.chunking`.

    Equal settings compare equal and have equal `repr`s, also across processes.

    Attributes:
        chunk_size: The longest chunk, in characters; 1 or more.
        chunk_overlap: How many characters neighbours share at most; from 0 to `chunk_size - 1`.
        separators: Cut behind these strings, the first the strongest, in place of headings, paragraphs, lines,
            sentences and words; a piece without any is cut between graphemes. They stay with the text before them.

    Raises:
        ValueError: A number is out of range, or a separator is empty.
        TypeError: A number is not an int, or `separators` is not a sequence of strings.
    """

    chunk_size: int = 512
    chunk_overlap: int = 50
    separators: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, value in (("chunk_size", self.chunk_size), ("chunk_overlap", self.chunk_overlap)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, got {value!r}")
        both = f"chunk_size={self.chunk_size} and chunk_overlap={self.chunk_overlap}"
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size must be 1 or more, got {both}")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise ValueError(f"chunk_overlap must be 0 or more and less than chunk_size, got {both}")
        if self.separators is not None:
            object.__setattr__(self, "separators", _checked(self.separators))

    def split(self, text: str) -> list[Span]:
        """Cut a text.

        Args:
            text: Any text, of any length. Blank text gives `[]`.

        Returns:
            Spans in order; `text[start:end]` is never blank, and starts and ends on a character that is not.

        Raises:
            TypeError: `text` is not a str.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {type(text).__name__}")
        bounds = Span(len(text) - len(text.lstrip()), len(text.rstrip()))
        if bounds.end - bounds.start <= self.chunk_size:
            return [bounds] if bounds.start < bounds.end else []
        return Cutter(text, bounds, self.chunk_size, self.chunk_overlap, self.separators).spans()


def _checked(separators: object) -> tuple[str, ...]:
    if isinstance(separators, str) or not isinstance(separators, Sequence):
        raise TypeError(f"separators must be a sequence of strings, got {separators!r}")
    for separator in separators:
        if not isinstance(separator, str):
            raise TypeError(f"separators must be a sequence of strings, got {separators!r}")
        if not separator:
            raise ValueError(f"separators must not be empty strings, got {separators!r}")
    return tuple(separators)
