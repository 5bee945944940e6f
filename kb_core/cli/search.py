"""`kb search`: the way out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kb_core.cli import parameters
from kb_core.cli.explain import explanation_dict, explanation_lines
from kb_core.cli.group import KBCommand
from kb_core.cli.output import SHORT_ID, console, emit_json, is_terminal, printable
from kb_core.cli.target import Target, kb_options, pass_target

if TYPE_CHECKING:
    from kb_core.documents import SearchResult
    from kb_core.explanation import Explanation


@click.command(
    cls=KBCommand,
    examples=(
        'kb search "can I return a gift?"',
        "kb search E-4012 --mode keyword -k 1",
        'kb search parental leave --where \'{"lang": "en", "year": {"$gte": 2025}}\'',
    ),
)
@click.argument("query", type=parameters.text, metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "-k", "--top-k", type=click.IntRange(min=0), default=5, metavar="N", help="How many, at most. [default: 5]"
)
@click.option("--mode", type=click.Choice(["hybrid", "vector", "keyword"]), help="By meaning, by words, or both.")
@click.option(
    "--alpha", type=parameters.number(0, 1), metavar="NUMBER", help="Weight of the meaning in hybrid search, 0 to 1."
)
@click.option("--where", type=parameters.where, metavar="JSON", help="Only chunks whose metadata satisfy this filter.")
@click.option("--min-score", type=parameters.number(), metavar="NUMBER", help="Leave out hits with a lower score.")
@click.option("--explain", is_flag=True, help="Show both raw scores of each hit and how they were fused.")
@kb_options()
@pass_target
def search(
    target: Target,
    query: tuple[str, ...],
    top_k: int,
    mode: str | None,
    alpha: float | None,
    where: dict[str, Any] | None,
    min_score: float | None,
    explain: bool,  # noqa: FBT001  click passes by name
) -> None:
    """Find the passages that answer QUERY, best first.

    QUERY is text, never syntax. In a pipe each hit is "[Score: 0.700] text", with a blank line between hits. Scores of
    a hybrid search compare hits of one search, not of two.
    """
    with target.open() as kb:
        found = kb.explain(" ".join(query), top_k, search_type=mode, alpha=alpha, where=where, min_score=min_score)
    if target.json:
        emit_json([_hit_dict(hit, with_explanation=explain) for hit in found])
    else:
        emit_results([hit.result for hit in found], [explanation_lines(hit) for hit in found] if explain else None)


def _hit_dict(hit: "Explanation", *, with_explanation: bool) -> dict[str, Any]:
    from kb_core.formatting import result_dict

    shown = result_dict(hit.result)
    return {**shown, "explanation": explanation_dict(hit)} if with_explanation else shown


def emit_results(
    results: "Sequence[SearchResult]", notes: Sequence[list[str]] | None = None, *, with_source: bool = False
) -> None:
    """Print hits: `[Score: 0.700] …` blocks in a pipe; with source and id on a terminal.

    Args:
        results: The hits, best first.
        notes: Lines to print below each.
        with_source: Name the sources in a pipe too.
    """
    from kb_core.formatting import NO_RESULTS, format_result

    noted = list(zip(results, notes or [[] for _ in results], strict=True))
    if not results:
        click.echo(NO_RESULTS)
    elif is_terminal():
        for rank, (result, lines) in enumerate(noted, start=1):
            if rank > 1:
                click.echo()
            _show(rank, result, lines)
    else:
        shown = ["source"] if with_source else []
        click.echo("\n\n".join("\n".join([format_result(result, shown), *lines]) for result, lines in noted))


def _show(rank: int, result: "SearchResult", notes: list[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    def show_indented(text: str, style: str = "") -> None:
        console().print(Padding(Text(printable(text), style), (0, 0, 0, 3)))

    source = str(result.chunk.metadata.get("source", "")) or "(no source)"
    head = [
        (f"{rank}. ", "bold"),
        (f"{result.score:.3f} {result.score_type}  ", "bold green"),
        (f"{printable(source)}  ", "cyan"),
        (result.chunk.id[:SHORT_ID], "dim"),
    ]
    console().print(Text.assemble(*head))
    show_indented(result.chunk.content)
    copies = [f"also in {', '.join(result.also_in)}"] if result.also_in else []
    for line in copies + notes:
        show_indented(line, "dim")
