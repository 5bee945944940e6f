"""The ids of a segment: row to id by offset, id to row by binary search over digests."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kb_core.stores.faiss.rows import Rows

_U64 = np.dtype("<u8")


def encode(chunk_id: str) -> bytes:
    """Give an id's bytes. They sort as the strings do, lone surrogates included (which no strict codec would take)."""
    return chunk_id.encode("utf-8", "surrogatepass")


def digests(ids: Iterable[bytes]) -> NDArray[np.uint64]:
    """Hash ids to 128 bits, (m, 2): too many for two ids ever to share one, by chance or by intent."""
    joined = b"".join([hashlib.blake2b(each, digest_size=16).digest() for each in ids])
    return np.frombuffer(joined, dtype=_U64).reshape(-1, 2)


class IdTable:
    """The ids of the rows of a segment, ascending, over one buffer that may be a mapped file.

    Layout, all little-endian 64-bit: n, the n + 1 offsets of the ids in the blob, the first halves of the digests in
    ascending order, their second halves, the row of each digest; then the blob. Opening it reads `n` and no id.

    Args:
        buffer: uint8, as made by `pack`.

    Raises:
        ValueError: Its length does not fit what it says.
    """

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self.n = int(buffer[:8].view(_U64)[0]) if buffer.size >= 8 else -1
        n_words = 2 + 4 * self.n
        if self.n < 0 or buffer.size < 8 * n_words:
            raise ValueError(f"an id table of {buffer.size} bytes cannot hold {self.n} ids")
        words = buffer[: 8 * n_words].view(_U64)
        self._offsets = words[1 : self.n + 2]
        self._first, self._second, self._rows = words[self.n + 2 :].reshape(3, self.n)
        self._blob = buffer[8 * n_words :]
        if int(self._offsets[-1]) != self._blob.size:
            raise ValueError(f"an id table says {int(self._offsets[-1])} bytes of ids and has {self._blob.size}")

    @staticmethod
    def pack(ids: Sequence[bytes]) -> NDArray[np.uint8]:
        """Make the buffer of a table. `ids` must be distinct and ascending."""
        offsets = np.zeros(len(ids) + 1, dtype=_U64)
        np.cumsum([len(each) for each in ids], out=offsets[1:])
        keys = digests(ids)
        order = np.argsort(keys[:, 0], kind="stable")
        head = np.array([len(ids)], dtype=_U64)
        words = np.concatenate([head, offsets, keys[order, 0], keys[order, 1], order.astype(_U64)])
        return np.concatenate([words.view(np.uint8), np.frombuffer(b"".join(ids), dtype=np.uint8)])

    def id(self, row: int) -> str:
        """Give the id of a row."""
        encoded = self._blob[int(self._offsets[row]) : int(self._offsets[row + 1])].tobytes()
        return encoded.decode("utf-8", "surrogatepass")

    def encoded(self) -> list[bytes]:
        """Give every id's bytes, by row."""
        blob = self._blob.tobytes()
        offsets = self._offsets.tolist()
        return [blob[start:end] for start, end in pairwise(offsets)]

    def find(self, keys: NDArray[np.uint64]) -> Rows:
        """Give the rows of those digests (m, 2) that are in the table; the others are left out.

        Cost: O(m log n).
        """
        found: list[Rows] = []
        at = np.searchsorted(self._first, keys[:, 0])
        # One pass, but for the case that never comes by chance: ids that share the first half of their digest.
        while keys.size:
            inside = at < self.n
            keys, at = keys[inside], at[inside]
            same = self._first[at] == keys[:, 0]
            keys, at = keys[same], at[same]
            hit = self._second[at] == keys[:, 1]
            found.append(self._rows[at[hit]].astype(np.int64))
            keys, at = keys[~hit], at[~hit] + 1
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
