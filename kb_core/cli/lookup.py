"""From what a person types to the document or chunk that is meant."""

from typing import TYPE_CHECKING, TypeVar

import click

from kb_core.cli.output import count

if TYPE_CHECKING:
    from kb_core.documents import Chunk
    from kb_core.local import LocalKB
    from kb_core.protocols import DocumentInfo

_SHOWN = 5

Item = TypeVar("Item", bound="DocumentInfo | Chunk")


def find(kb: "LocalKB", reference: str) -> "DocumentInfo | Chunk":
    """Find the one document or chunk with this id, or whose id alone begins so.

    Raises:
        click.ClickException: There is none, or there are several.
    """
    documents = kb.documents()
    for document in documents:
        if document.id == reference:
            return document
    chunk = kb.get_chunk(reference)
    if chunk is not None:
        return chunk
    found: list[DocumentInfo | Chunk] = [document for document in documents if document.id.startswith(reference)]
    for document in documents:
        found.extend(chunk for chunk in kb.chunks(document.id) if chunk.id.startswith(reference))
    return _only(found, reference, kb.name)


def find_by_source(kb: "LocalKB", reference: str) -> "DocumentInfo | None":
    """Find the one document of a source, named in full or by its last part; None where no source is called so.

    Raises:
        click.ClickException: There are several.
    """
    documents = kb.documents()
    found = [document for document in documents if document.source == reference]
    found = found or [document for document in documents if document.source.endswith(f"/{reference}")]
    return _only(found, reference, kb.name) if found and reference else None


def _only(found: list[Item], reference: str, kb_name: str) -> Item:
    if not found:
        raise click.ClickException(f"nothing in {kb_name!r} has an id like {reference!r}; kb list shows the documents")
    if len(found) > 1:
        shown = ", ".join(item.id for item in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise click.ClickException(f"{reference!r} means {count(len(found), 'item')}, give an id: {shown}{more}")
    return found[0]
