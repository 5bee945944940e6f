"""`kb delete`, `kb clear`, `kb reembed`: what changes a knowledge base besides adding to it."""

import click

from kb_core.cli import parameters
from kb_core.cli.group import KBCommand
from kb_core.cli.lookup import find
from kb_core.cli.output import count, emit_json
from kb_core.cli.target import Target, kb_options, pass_target


@click.command(
    cls=KBCommand,
    examples=(
        "kb delete 3f2a91c0",
        "kb delete --source handbook/returns.md",
    ),
)
@click.argument("ids", type=parameters.text, metavar="[ID]...", nargs=-1)
@click.option(
    "--source",
    "sources",
    type=parameters.text,
    metavar="TEXT",
    multiple=True,
    help="Delete every document of this source. Repeatable.",
)
@kb_options(embedder=False)
@pass_target
def delete(target: Target, ids: tuple[str, ...], sources: tuple[str, ...]) -> None:
    """Delete documents or chunks.

    ID is an id, or a beginning of it that no other id has. Where one of them is not there, nothing is deleted. A
    document that loses its last chunk goes too.
    """
    if not ids and not sources:
        raise click.UsageError("give an ID, or --source")
    from kb_core.documents import Chunk

    with target.open() as kb:
        found = [find(kb, id_) for id_ in ids]
        chunk_ids = {item.id for item in found if isinstance(item, Chunk)}
        document_ids = {item.id for item in found} - chunk_ids
        for source in sources:
            of_source = {document.id for document in kb.documents(source=source)}
            if not of_source:
                raise click.ClickException(f"no document in {kb.name!r} has the source {source!r}; nothing was deleted")
            document_ids |= of_source
        n_documents = kb.delete_document(*document_ids)
        n_chunks = kb.delete(*chunk_ids)
    if target.json:
        emit_json({"documents": n_documents, "chunks": n_chunks})
        return
    counts = [(n_documents, "document"), (n_chunks, "chunk")]
    click.echo(f"deleted {', '.join(count(n, noun) for n, noun in counts if n) or 'nothing'}")


@click.command(
    cls=KBCommand,
    examples=(
        "kb clear --kb drafts",
        "kb clear --yes",
    ),
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@kb_options(embedder=False)
@pass_target
def clear(target: Target, yes: bool) -> None:  # noqa: FBT001  click passes by name
    """Erase everything in a knowledge base.

    Every document, chunk and embedding goes, after a question; the settings stay.
    """
    with target.open() as kb:
        n_documents = kb.status()["documents"]
        question = f"Erase {count(n_documents, 'document')} in {target.home / target.name}?"
        if not yes and not _is_confirmed(question):
            raise click.ClickException("nothing was erased; with --yes it is, without a question")
        kb.clear()
    if target.json:
        emit_json({"documents": n_documents})
    else:
        click.echo(f"erased {count(n_documents, 'document')}")


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise
        click.echo(err=True)  # the input ended before an answer
        return False


@click.command(
    cls=KBCommand,
    examples=(
        "kb reembed static",
        "kb reembed fastembed:BAAI/bge-small-en-v1.5",
    ),
)
@click.argument("to", type=parameters.embedder_spec, metavar="SPEC")
@kb_options(embedder=False)
@pass_target
def reembed(target: Target, to: str) -> None:
    """Move a knowledge base to another embedder.

    SPEC is auto, fastembed[:model], openai[:model], static or hashing. Searches go on with the old vectors until all
    new ones are there; stopped half way, a second run goes on where the first was.
    """
    with target.open() as kb:
        embedder = parameters.make_embedder(to)
        if embedder is None:
            from kb_core.embedders import choose_embedder

            embedder = choose_embedder()
        n_texts = kb.reembed(embedder)
        fingerprint = kb.status()["embedder"]
    if target.json:
        emit_json({"texts": n_texts, "embedder": fingerprint})
    else:
        click.echo(f"embedded {count(n_texts, 'text')} with {fingerprint}")
