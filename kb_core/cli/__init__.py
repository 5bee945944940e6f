"""The command line `kb`: each command is one verb of `LocalKB`.

Only click and the standard library are imported here: `kb --help` must not wait for a model's libraries.
"""

import click

from kb_core._version import __version__
from kb_core.cli.add import add
from kb_core.cli.browse import list_documents, show, status
from kb_core.cli.change import clear, delete, reembed
from kb_core.cli.demo import demo
from kb_core.cli.group import KBGroup
from kb_core.cli.search import search
from kb_core.cli.target import kb_options

__all__ = ["cli", "main"]


@click.group(
    cls=KBGroup,
    examples=("kb demo", "kb add handbook/ notes.pdf", 'kb search "how long do I have to return something?"'),
)
@kb_options()
@click.version_option(__version__, prog_name="kb")
def cli() -> None:
    """Put documents into a knowledge base, and find the passages that answer a question.

    In a pipe, output is plain lines or tab-separated; with --json it is one JSON document.

    Exit codes: 0 done, 1 something failed (the reason is on standard error), 2 wrong usage, 130 interrupted.
    """


for _command in (add, search, list_documents, show, delete, clear, status, reembed, demo):
    cli.add_command(_command)


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    cli.main(prog_name="kb")
