"""What `add` does with a path, a folder, a list of documents."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb_core.documents import Document, Failure
from kb_core.errors import KBError, SourceNotFoundError
from kb_core.ingest import Ingest
from kb_core.metadata import normalise_metadata
from kb_core.progress import track

if TYPE_CHECKING:
    from kb_core.loaders import LoadedFile


def resolve(source: object) -> Path | None:
    """Tell whether what a user adds is a path.

    Returns:
        The path, which exists; None where it is text.

    Raises:
        SourceNotFoundError: It is or looks like a path, and names nothing.
        TypeError: It is neither `str` nor `Path`.
    """
    from kb_core.loaders import looks_like_path

    if isinstance(source, os.PathLike):
        path = Path(source)
        if not _exists(path):
            raise SourceNotFoundError(f"there is no file or folder at {str(path)!r}")
        return path
    if not isinstance(source, str):
        raise TypeError(f"add takes a path or a text, got {type(source).__name__}; add_documents takes documents")
    if source.strip() and _exists(Path(source)):
        return Path(source)
    if looks_like_path(source):
        raise SourceNotFoundError(f"there is no file or folder at {source!r}; use add_text to add it as a text")
    return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a text too long for a name, or with a NUL in it
        return False


def add_path(
    ingest: Ingest,
    path: Path,
    *,
    metadata: Mapping[str, Any] | None,
    include: Iterable[str],
    exclude: Iterable[str],
    progress: bool | None,
) -> None:
    """Add a file, or every file below a folder.

    Args:
        ingest: Takes the documents in.
        path: Exists.
        metadata: Given to every document.
        include: See `kb_core.loaders.walk`.
        exclude: See `kb_core.loaders.walk`.
        progress: See `kb_core.progress.track`.

    Raises:
        UnsupportedFormatError, LoaderError: The one file that was named cannot be read. In a folder, such a file
            stands in the report's `failed` and the others go in.
        EmbedderError: See `Ingest.add`.
    """
    from kb_core.loaders import load_file, source_name, walk

    given = normalise_metadata(metadata or {})
    if not path.is_dir():
        _take(ingest, load_file(path, metadata=given))
        return
    failed = ingest.report.failed

    def note_failure(place: Path, error: KBError) -> None:
        failed.append(Failure(source=source_name(place), reason=str(error)))

    skipped: Counter[str] = Counter()
    files = list(
        walk(
            path,
            include=include,
            exclude=exclude,
            on_error=note_failure,
            on_skip=lambda _, reason: skipped.update([reason]),
        )
    )
    ingest.report.warnings.extend(f"{n_files} left out: {reason}" for reason, n_files in sorted(skipped.items()))
    for file in track(files, len(files), "Adding", is_wanted=progress):
        try:
            loaded = load_file(file, metadata=given)
        except KBError as error:
            note_failure(file, error)
        else:
            _take(ingest, loaded)


def _take(ingest: Ingest, loaded: "LoadedFile") -> None:
    ingest.report.warnings.extend(loaded.warnings)
    ingest.add(loaded.documents, replaces=loaded.source, page_starts=loaded.page_starts)


def add_documents(ingest: Ingest, documents: Iterable[Document], *, progress: bool | None) -> None:
    """Add documents; all are looked at before the first is stored.

    Raises:
        TypeError: One of them is no `Document`.
        EmbedderError: See `Ingest.add`.
    """
    if isinstance(documents, Document | str | Mapping):
        raise TypeError(f"documents must be a list of Document, got one {type(documents).__name__}")
    found = list(documents)
    for position, document in enumerate(found):
        if not isinstance(document, Document):
            raise TypeError(f"documents[{position}] must be a Document, got {type(document).__name__}")
    ingest.add(found, progress=progress)
