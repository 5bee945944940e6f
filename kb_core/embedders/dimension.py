"""A dimension that may be known, taken for granted, or not known before the first vector."""

from kb_core.errors import EmbedderMismatchError


class Dimension:
    """The dimension of one embedder's vectors.

    Args:
        value: Where it is known; None: the first vector will tell.
    """

    def __init__(self, value: int | None) -> None:
        self.value = value
        self._is_expected = False

    def expect(self, value: int) -> None:
        """Take a dimension for granted until a vector shows another: then that is a mismatch."""
        if self.value is None:
            self.value, self._is_expected = value, True

    @property
    def required(self) -> int | None:
        """What every vector must have; None as long as no vector or attribute of the embedder has told."""
        return None if self._is_expected else self.value

    def learn(self, value: int, name: str) -> None:
        """Note the dimension of a vector.

        Raises:
            EmbedderMismatchError: Another one was expected; `name` is the embedder's, for the message.
        """
        if self._is_expected and value != self.value:
            raise EmbedderMismatchError(
                f"this knowledge base holds vectors of dimension {self.value}, and {name} gives {value}. "
                "Open it with the same embedder, or move it with kb.reembed(embedder) or `kb reembed`."
            )
        self.value, self._is_expected = value, False
