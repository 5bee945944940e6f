"""`kb add`: the way in."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_core.cli import parameters
from kb_core.cli.group import KBCommand
from kb_core.cli.output import count, emit_json, warn
from kb_core.cli.target import Target, kb_options, pass_target

if TYPE_CHECKING:
    from kb_core.documents import AddReport
    from kb_core.local import LocalKB

STDIN = "-"


@click.command(
    cls=KBCommand,
    examples=(
        'kb add handbook/ --exclude "drafts/"',
        "kb add price-list.pdf --metadata lang=en --metadata year=2026",
        'kb add --text "We close at six." --source hours',
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--text", type=parameters.text, metavar="TEXT", help="Add this text.")
@click.option(
    "--source",
    type=parameters.text,
    metavar="TEXT",
    help="Where the text is from; a later text of that source replaces it.",
)
@click.option(
    "--metadata",
    type=parameters.metadata,
    multiple=True,
    metavar="KEY=VALUE",
    help="Given to every document; the value is JSON where it reads as such, else text. Repeatable.",
)
@click.option(
    "--include",
    type=parameters.text,
    multiple=True,
    metavar="GLOB",
    help="In folders: add only such files. Repeatable.",
)
@click.option(
    "--exclude",
    type=parameters.text,
    multiple=True,
    metavar="GLOB",
    help="In folders: leave out such files. Repeatable.",
)
@kb_options()
@pass_target
def add(
    target: Target,
    paths: tuple[str, ...],
    text: str | None,
    source: str | None,
    metadata: tuple[tuple[str, Any], ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> None:
    """Add files, folders or a text.

    A folder stands for everything below it, and "-" for the text on standard input. What is there already and has not
    changed costs nothing; what has changed takes the place of its former version.

    A file that cannot be read is listed on standard error and the others go in; the exit code is then 1.
    """
    _check_usage(paths, text, source)
    there, report = _existing(paths)
    if STDIN in paths:
        text = sys.stdin.buffer.read().decode(errors="replace")
    place = ""
    if there or text is not None:
        with target.create() as kb:
            place = f"{target.home / target.name}: "
            for part in _add_all(kb, there, text, source or "", dict(metadata), include, exclude):
                _merge(report, part)
    _emit(report, place, is_json=bool(target.json))
    if report.failed:
        raise click.exceptions.Exit(1)


def _check_usage(paths: tuple[str, ...], text: str | None, source: str | None) -> None:
    if text is None and not paths:
        raise click.UsageError("give a PATH, or a text with --text")
    if text is not None and STDIN in paths:
        raise click.UsageError("give a text with --text or on standard input, not both")
    if source is not None and text is None and STDIN not in paths:
        raise click.UsageError("--source names a text: it goes with --text or -; files name themselves")


def _existing(paths: tuple[str, ...]) -> "tuple[list[Path], AddReport]":
    """Tell the paths that are there from those that fail, before a knowledge base is made for nothing."""
    from kb_core.documents import AddReport, Failure
    from kb_core.loaders.paths import source_name

    there: list[Path] = []
    report = AddReport()
    for path in paths:
        if path == STDIN:
            continue
        if _exists(path):
            there.append(Path(path))
        else:
            reason = "there is no such file or folder; a text is added with --text"
            report.failed.append(Failure(source=source_name(path), reason=reason))
    return there, report


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # longer than a name can be, or with a NUL
        return False


def _add_all(
    kb: "LocalKB",
    paths: list[Path],
    text: str | None,
    source: str,
    metadata: dict[str, Any],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> "Iterator[AddReport]":
    from kb_core.documents import AddReport, Failure
    from kb_core.errors import LoaderError, SourceNotFoundError, UnsupportedFormatError

    for path in paths:
        try:
            yield kb.add(path, metadata=metadata, include=include, exclude=exclude)
        except (LoaderError, SourceNotFoundError, UnsupportedFormatError) as error:
            yield AddReport(failed=[Failure(source=str(path), reason=str(error))])
    if text is not None:
        yield kb.add_text(text, source=source, metadata=metadata)


def _merge(report: "AddReport", part: "AddReport") -> None:
    for name in ("added", "updated", "unchanged", "chunks", "truncated", "failed", "warnings"):
        setattr(report, name, getattr(report, name) + getattr(part, name))


def _emit(report: "AddReport", place: str, *, is_json: bool) -> None:
    for message in report.warnings:
        warn(f"warning: {message}")
    if report.truncated:
        warn(f"warning: {count(report.truncated, 'chunk')} longer than the model reads: found by keyword beyond that")
    for failure in report.failed:
        # A loader's message names the file by itself.
        named = failure.reason if failure.source in failure.reason else f"{failure.source}: {failure.reason}"
        warn(f"failed: {named}")
    if is_json:
        emit_json(report.model_dump(mode="json"))
        return
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged")}
    counts["failed"] = len(report.failed)
    summary = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or "nothing to add"
    chunks = f" ({count(report.chunks, 'chunk')})" if report.chunks else ""
    click.echo(f"{place}{summary}{chunks}")
