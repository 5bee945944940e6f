"""One file, by its path, as documents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kb_core.documents import Document, clean_text
from kb_core.errors import KBError, LoaderError, UnsupportedFormatError
from kb_core.loaders.formats import loader_for
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits, LoadedFile
from kb_core.loaders.paths import source_name
from kb_core.loaders.reading import check_file, read_file
from kb_core.metadata import normalise_metadata

_DEFAULT_LIMITS = Limits()
_READABLE = ".pdf .docx .html .md .rst .txt .csv .tsv .json .jsonl .ipynb, source code and other text"


def load_file(
    path: str | Path,
    *,
    source: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    limits: Limits = _DEFAULT_LIMITS,
) -> LoadedFile:
    """Read a file as documents.

    Every document has `file_name`, `file_type` (the suffix) and, where it is not UTF-8, `encoding` in its metadata; a
    PDF `n_pages`; HTML, Word and PDF a `title`; a JSON record its own fields.

    Args:
        path: Of one file; links are followed.
        source: What the documents are cited as; None: `source_name(path)`.
        metadata: Given to every document; goes before what the loader finds.
        limits: What the file may cost.

    Raises:
        SourceNotFoundError: There is no such file.
        UnsupportedFormatError: No loader reads this kind of file.
        LoaderError: It is damaged, encrypted, too large, not readable, or changed meanwhile. Messages name the file.
        TypeError, ValueError: The metadata given cannot be kept.
    """
    path = Path(path)
    name = clean_text(source_name(path) if source is None else source)
    given = normalise_metadata(metadata or {})
    try:
        extracted = _extract(path, limits)
        documents = [_document(text, path, name, given) for text in extracted.texts]
    except KBError as error:
        raise type(error)(f"{name!r}: {error}") from error
    except MemoryError as error:
        raise LoaderError(f"{name!r}: it needs more memory than there is") from error
    except Exception as error:  # libraries raise anything on a damaged file, and it must not cost the other files
        raise LoaderError(f"{name!r}: it is damaged ({type(error).__name__}: {str(error)[:200]})") from error
    n_unstorable = sum(_n_unstorable(text.content) for text in extracted.texts)
    warnings = [*extracted.warnings]
    if n_unstorable:
        warnings.append(f"{n_unstorable} NUL characters or lone surrogates were replaced by U+FFFD")
    return LoadedFile(name, documents, [f"{name!r}: {warning}" for warning in warnings], extracted.page_starts)


def _extract(path: Path, limits: Limits) -> Extracted:
    suffix = path.suffix.lower()
    loader = loader_for(suffix)
    if loader is None:
        check_file(path)
        raise UnsupportedFormatError(f"no loader reads {suffix} files; {_READABLE} are read")
    data = read_file(path, limits.max_bytes)
    return loader(data, suffix, limits)


def _document(text: ExtractedText, path: Path, source: str, given: dict[str, Any]) -> Document:
    try:
        found = normalise_metadata(text.metadata)
    except (TypeError, ValueError) as error:
        raise LoaderError(f"a record has fields that cannot be kept: {error}") from error
    of_file = {"file_name": source_name(path.name), "file_type": path.suffix.lower()}
    return Document(
        id=f"{source}#{text.key}" if text.key else "",
        content=text.content,
        source=source,
        metadata={**found, **of_file, **given},
    )


def _n_unstorable(content: str) -> int:
    cleaned = clean_text(content)
    return 0 if cleaned == content else sum(old != new for old, new in zip(content, cleaned, strict=True))
