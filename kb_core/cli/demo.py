"""`kb demo`: the whole way, on a small handbook that ships with the package."""

import json
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from kb_core.cli.group import KBCommand
from kb_core.cli.output import count, emit_json
from kb_core.cli.parameters import make_embedder
from kb_core.cli.search import emit_results
from kb_core.cli.target import Target, kb_options, pass_target

if TYPE_CHECKING:
    from kb_core.documents import SearchResult
    from kb_core.local import LocalKB

_FOR = {
    "returns.md": ("customers", date(2026, 3, 2)),
    "shipping.md": ("customers", date(2026, 5, 18)),
    "warranty.md": ("customers", date(2025, 11, 9)),
    "privacy.md": ("customers", date(2025, 6, 30)),
    "onboarding.md": ("staff", date(2026, 1, 12)),
    "on-call.md": ("staff", date(2026, 4, 27)),
    "api.md": ("developers", date(2026, 5, 4)),
    "changelog.md": ("developers", date(2026, 5, 29)),
}
"""Who each document is for and when it was last changed: metadata to filter by."""


@dataclass(frozen=True)
class Showcase:
    """A query of the demo, what it shows, and the options of its search."""

    title: str
    query: str
    options: dict[str, Any] = field(default_factory=dict)


SHOWCASES = (
    Showcase("Ask in your own words", "how long do I have to send something back?"),
    Showcase("Find an identifier to the letter", "E-4012"),
    Showcase("Find what shares no word with the question", "rusty skillet"),
    Showcase("Look only into what is for staff", "payment problems", {"where": {"audience": "staff"}}),
    Showcase("Or what is new since May", "warranty on motors", {"where": {"updated": {"$gte": "2026-05-01"}}}),
)


def load_handbook(kb: "LocalKB") -> int:
    """Add the handbook to a knowledge base. Returns how many chunks there are."""
    from kb_core.documents import Document

    folder = files("kb_core.cli") / "demo_corpus"
    documents = [
        Document(
            content=(folder / name).read_text(encoding="utf-8"),
            source=name,
            metadata={"audience": audience, "updated": updated},
        )
        for name, (audience, updated) in _FOR.items()
    ]
    return int(kb.add_documents(documents))


@click.command(
    cls=KBCommand,
    examples=(
        "kb demo",
        "kb demo --embedder auto",
    ),
)
@kb_options()
@pass_target
def demo(target: Target) -> None:
    """Answer questions from a small handbook.

    It is that of a shop, and is indexed in memory. Nothing is written, downloaded or sent: the embedder is the static
    one, which ships with the package. Choose another with --embedder, for example "auto", what a new knowledge base
    takes by itself.
    """
    from kb_core.local import LocalKB

    with LocalKB("demo", persist=False, embedder=make_embedder(target.embedder or "static")) as kb:
        n_chunks = load_handbook(kb)
        answers = [(showcase, kb.search(showcase.query, **showcase.options)) for showcase in SHOWCASES]
    if target.json:
        emit_json([_answer_dict(*answer) for answer in answers])
        return
    click.echo(f"{count(len(_FOR), 'document')} of a small shop's handbook, {count(n_chunks, 'chunk')}, in memory.")
    for showcase, results in answers:
        click.echo(f"\n{click.style(f'{showcase.title}: {showcase.query}', bold=True)}")
        for name, value in showcase.options.items():
            click.echo(f"{name} {json.dumps(value)}")
        click.echo()
        emit_results(results[:1], with_source=True)
    click.echo("\nNow with your own: kb add PATH, then kb search QUESTION")


def _answer_dict(showcase: Showcase, results: "list[SearchResult]") -> dict[str, Any]:
    from kb_core.formatting import result_dict

    return {
        "title": showcase.title,
        "query": showcase.query,
        **showcase.options,
        "results": [result_dict(result) for result in results],
    }
