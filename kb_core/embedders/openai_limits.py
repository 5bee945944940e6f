"""What one request to the OpenAI embeddings endpoint may hold, respected without a tokenizer.

https://platform.openai.com/docs/api-reference/embeddings/create (`input`): at most 2,048 inputs a request, 8,192
tokens an input (8,191 are usable), 300,000 tokens over all inputs. The real tokenizer, tiktoken, fetches its vocabulary
from the network, so tokens are bounded from above: each token of a byte-level BPE covers at least one byte of UTF-8.
"""

import re
from collections.abc import Iterator, Sequence

MAX_INPUTS = 2_048
MAX_INPUT_TOKENS = 8_191
MAX_REQUEST_TOKENS = 300_000

_PIECE = re.compile(r"[A-Za-z]+|[0-9]+| (?=\S)|\s+|[\U00010000-\U0010FFFF]|.", re.DOTALL)


def max_tokens(text: str) -> int:
    """Bound the tokens of an input that was cut: no more than its bytes, nor than an input may have."""
    return min(len(text.encode()), MAX_INPUT_TOKENS)


def cut_by_estimate(text: str, limit: int = MAX_INPUT_TOKENS) -> str:
    """Cut a text where it reaches `limit` tokens by a careful estimate.

    A token for each 3 letters or digits of a run, each CJK or accented character, each sign, each longer white space;
    3 for a character beyond the basic plane; a single space goes with the next word. English has about 4.5 characters
    a token, so this is on the safe side for text. Only noise can have more, see `cut_to_bytes`.

    Returns:
        The text itself where it fits.
    """
    if len(text.encode()) <= limit:
        return text
    n_tokens = 0
    for piece in _PIECE.finditer(text):
        n_tokens += _cost(piece[0])
        if n_tokens > limit:
            return text[: piece.start()]
    return text


def _cost(piece: str) -> int:
    if piece.isascii() and piece.isalnum():
        return -(-len(piece) // 3)
    if piece == " ":
        return 0
    return 3 if piece > "\uffff" else 1


def cut_to_bytes(text: str, limit: int = MAX_INPUT_TOKENS) -> str:
    """Cut a text to `limit` bytes of UTF-8, at a character: it cannot have more tokens than that."""
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore")


def batches_of(texts: Sequence[str], *, max_inputs: int = MAX_INPUTS) -> Iterator[list[str]]:
    """Split texts, each cut already, into requests within all three limits, in order."""
    batch: list[str] = []
    n_tokens = 0
    for text in texts:
        cost = max_tokens(text)
        if batch and (len(batch) == max_inputs or n_tokens + cost > MAX_REQUEST_TOKENS):
            yield batch
            batch, n_tokens = [], 0
        batch.append(text)
        n_tokens += cost
    if batch:
        yield batch
