"""`kb list`, `kb show`, `kb status`: what is in a knowledge base. Nothing is changed, no model is loaded."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from kb_core.cli import parameters
from kb_core.cli.group import KBCommand
from kb_core.cli.lookup import find, find_by_source
from kb_core.cli.output import SHORT_ID, count, emit_fields, emit_json, emit_table, is_terminal, printable, size
from kb_core.cli.target import Target, kb_options, pass_target

if TYPE_CHECKING:
    from kb_core.documents import Chunk
    from kb_core.local import LocalKB
    from kb_core.protocols import DocumentInfo


@click.command(
    "list",
    cls=KBCommand,
    examples=(
        "kb list",
        "kb list --kb handbook | cut -f 2",
    ),
)
@kb_options(embedder=False)
@pass_target
def list_documents(target: Target) -> None:
    """List the documents, by source.

    In a pipe, a line is: id, source, chunks, characters, time of adding (UTC), separated by tabs.
    """
    with target.open(read_only=True) as kb:
        documents = kb.documents()
    if target.json:
        emit_json([_info_dict(document) for document in documents])
    elif documents or not is_terminal():
        emit_table(("id", "source", "chunks", "characters", "added"), map(_row, documents), wrapping=["source"])
    else:
        click.echo(f"no documents in {target.name!r} yet; add some with: kb add PATH")


def _row(document: "DocumentInfo") -> tuple[str, str, int, int, str]:
    id_, added_at = document.id, document.added_at
    if is_terminal():
        id_ = id_[:SHORT_ID]
        added_at = datetime.fromisoformat(added_at).astimezone().strftime("%Y-%m-%d %H:%M")
    return id_, document.source, document.n_chunks, document.n_chars, added_at


def _info_dict(document: "DocumentInfo") -> dict[str, Any]:
    from kb_core.metadata import json_safe_metadata

    return {
        "id": document.id,
        "source": document.source,
        "metadata": json_safe_metadata(document.metadata),
        "n_chunks": document.n_chunks,
        "n_chars": document.n_chars,
        "added_at": document.added_at,
    }


@click.command(
    cls=KBCommand,
    examples=(
        "kb show 3f2a91c0",
        "kb show handbook/returns.md",
        "kb show returns.md",
    ),
)
@click.argument("reference", type=parameters.text, metavar="ID")
@kb_options(embedder=False)
@pass_target
def show(target: Target, reference: str) -> None:
    """Show a document or a chunk with its text.

    ID is its id, a beginning of it that no other id has, or the document's source or the end of it.
    """
    from kb_core.documents import Chunk

    with target.open(read_only=True) as kb:
        found = find_by_source(kb, reference) or find(kb, reference)
        fields, text = _chunk(found) if isinstance(found, Chunk) else _document(kb, found)
    if target.json:
        emit_json({**fields, "content": text})
        return
    metadata = {f"metadata.{key}": value for key, value in fields.pop("metadata").items() if key != "source"}
    emit_fields({**{name: value for name, value in fields.items() if name != "chunks"}, **metadata})
    click.echo(f"\n{printable(text) if is_terminal() else text}")


def _document(kb: "LocalKB", info: "DocumentInfo") -> tuple[dict[str, Any], str]:
    document = kb.get_document(info.id)
    if document is None:
        raise click.ClickException(f"the document {info.id} has been deleted meanwhile")
    chunk_ids = [chunk.id for chunk in kb.chunks(info.id)]
    return {"kind": "document", **_info_dict(info), "chunks": chunk_ids}, document.content


def _chunk(chunk: "Chunk") -> tuple[dict[str, Any], str]:
    from kb_core.metadata import json_safe_metadata

    fields = {
        "kind": "chunk",
        "id": chunk.id,
        "document_id": chunk.document_id,
        "source": str(chunk.metadata.get("source", "")),
        "metadata": json_safe_metadata(chunk.metadata),
        "index": chunk.index,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
    }
    return fields, chunk.content


@click.command(
    cls=KBCommand,
    examples=(
        "kb status",
        "kb status --json | jq .chunks",
    ),
)
@kb_options(embedder=False)
@pass_target
def status(target: Target) -> None:
    """Tell what a knowledge base holds.

    Also where it lies, which embedder it speaks, and how it is set up.
    """
    with target.open(read_only=True) as kb:
        found = kb.status()
    if target.json:
        emit_json(found)
        return
    if is_terminal():
        found["size"] = size(found.pop("size_bytes"))
        if not found["not_embedded"]:
            del found["not_embedded"]
        else:
            found["not_embedded"] = f"{count(found['not_embedded'], 'chunk')}; the next kb add embeds them"
    emit_fields(found)
