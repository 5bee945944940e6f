"""How every command behaves: what goes to which exit code, what survives a poor console, how help is laid out."""

import errno
import io
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from kb_core.errors import KBError

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""


class TargetOption(click.Option):
    """An option that every command takes, before or after its name; listed in a section of its own."""


class _SectionedHelp(click.Command):
    """Help with examples, and with the options that every command has in a section of their own."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                (shared if isinstance(option, TargetOption) else own).append(record)
        for title, records in (("Options", own), ("Which knowledge base, which output", shared)):
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("".join(f"{'':{formatter.current_indent}}{example}\n" for example in self.examples))


class KBCommand(_SectionedHelp):
    """A command of `kb`."""


class KBGroup(_SectionedHelp, click.Group):
    """`kb` itself: turns expected failures into a message and an exit code, and everything else into a traceback."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of a first use, not of the alphabet

    def main(self, *args: Any, **options: Any) -> Any:
        # A console in a legacy code page must cost a character, not the run.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end_interrupted()
        except click.Abort as abort:
            if isinstance(abort.__context__, KeyboardInterrupt):  # Ctrl-C at a question
                _end_interrupted()
            raise
        except KBError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # click ends quietly
                raise
            raise click.ClickException(str(error)) from error


def _end_interrupted() -> NoReturn:
    click.echo("interrupted", err=True)
    raise click.exceptions.Exit(INTERRUPTED)
