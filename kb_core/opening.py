"""Where a knowledge base lives on disk, and how its stores are opened there."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kb_core.documents import clean_text
from kb_core.protocols import KeywordStore, MetadataStore, VectorStore

_LONGEST_NAME = 200
"""In bytes: file systems take 255, and the files beside the folder need some."""


def home() -> Path:
    """Where knowledge bases live: `$KB_HOME`, else `.kb` under the working directory."""
    return Path(os.environ.get("KB_HOME") or ".kb")


def check_name(name: object) -> str:
    """Refuse a name that could not be a folder of its own.

    Raises:
        TypeError: It is no `str`.
        ValueError: It is blank, too long, or would leave the folder of knowledge bases.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    is_folder_name = name.strip() and name not in {".", ".."} and not any(sign in name for sign in "/\\")
    if not is_folder_name or any(ord(sign) < ord(" ") for sign in name) or clean_text(name) != name:
        raise ValueError(f"a knowledge base is named like a folder, without / \\ or control characters, got {name!r}")
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"a name has at most {_LONGEST_NAME} bytes of UTF-8, got {len(name.encode())}: {name[:20]!r}…")
    return name


IndexType = Literal["auto", "flat", "ivf", "hnsw"]


@dataclass(frozen=True)
class Stores:
    """The user's own stores; None where the default one is wanted."""

    vectors: VectorStore | None = None
    keywords: KeywordStore | None = None
    metadata: MetadataStore | None = None

    @property
    def backend(self) -> str:
        """Name the three, for traces."""
        defaults = ("SqliteMetadataStore", "FaissVectorStore", "TantivyKeywordStore")
        given = (self.metadata, self.vectors, self.keywords)
        return "+".join(
            name if store is None else type(store).__name__ for name, store in zip(defaults, given, strict=True)
        )


@dataclass(frozen=True)
class Place:
    """The folder of one knowledge base: `<home>/<name>/`; in memory where there is no home.

    Attributes:
        home: The folder that holds knowledge bases; None for memory.
        name: Checked, see `check_name`.
        read_only: Open everything read-only.
    """

    home: Path | None
    name: str
    read_only: bool

    @property
    def folder(self) -> Path | None:
        """The folder itself."""
        return None if self.home is None else self.home / self.name

    def size(self) -> int:
        """Count the bytes on disk."""
        if self.folder is None:
            return 0
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def open_truth(self) -> MetadataStore:
        """Open `kb.sqlite`."""
        from kb_core.stores.sqlite import SqliteMetadataStore

        return SqliteMetadataStore(None if self.folder is None else self.folder / "kb.sqlite", read_only=self.read_only)

    def vectors_opener(
        self, truth: MetadataStore, index_type: IndexType, given: VectorStore | None
    ) -> Callable[[], VectorStore]:
        """Give what opens the vector index; the user's own store where there is one."""

        def open_vectors() -> VectorStore:
            from kb_core.stores.faiss import FaissVectorStore

            return FaissVectorStore(self._index(truth, "vectors"), index_type=index_type, read_only=self.read_only)

        return open_vectors if given is None else lambda: given

    def keywords_opener(
        self, truth: MetadataStore, language: str | None, given: KeywordStore | None
    ) -> Callable[[], KeywordStore]:
        """Give what opens the keyword index; the user's own store where there is one."""

        def open_keywords() -> KeywordStore:
            from kb_core.analysis import Analyzer
            from kb_core.stores.tantivy import TantivyKeywordStore

            return TantivyKeywordStore(self._index(truth, "keywords"), Analyzer(language), read_only=self.read_only)

        return open_keywords if given is None else lambda: given

    def _index(self, truth: MetadataStore, kind: str) -> Path | None:
        # Under the truth's own random name: no index outlives, or is shown with, another truth than its own.
        store_id = getattr(truth, "store_id", None)
        if self.folder is None or store_id is None:
            return None
        return self.folder / "index" / str(store_id) / kind
