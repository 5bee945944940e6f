"""The options that every command takes: which knowledge base, with which embedder, printed how."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kb_core.cli import parameters
from kb_core.cli.group import TargetOption
from kb_core.errors import SourceNotFoundError

if TYPE_CHECKING:
    from kb_core.local import LocalKB

_EMBEDDER_HELP = (
    "auto, fastembed[:model], openai[:model], static or hashing; "
    "for a new one, which then remembers it. [default: auto]"
)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Target:
    """The knowledge base that a command works on; what was given after the command's name wins.

    Attributes:
        kb: Its name, as given.
        path: The folder of knowledge bases, as given.
        embedder: The embedder's specification, as given.
        json: Whether output is one JSON document.
    """

    kb: str | None = None
    path: str | None = None
    embedder: str | None = None
    json: bool | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.kb or os.environ.get("KB_NAME") or "default"

    @property
    def home(self) -> Path:
        """The folder of knowledge bases."""
        from kb_core.opening import home

        return Path(self.path) if self.path else home()

    def create(self) -> "LocalKB":
        """Open the knowledge base, making it if there is none."""
        self._check_name()
        return self._open(read_only=False)

    def open(self, *, read_only: bool = False) -> "LocalKB":
        """Open a knowledge base that exists.

        Args:
            read_only: Change nothing on disk; so it is anyway where the folder cannot be written to.

        Raises:
            SourceNotFoundError: There is none; says which there are, and how one is made.
        """
        self._check_name()
        folder = self.home / self.name
        if not (folder / "kb.sqlite").is_file():
            others = names_in(self.home)
            known = f"; there is {', '.join(others)}" if others else ""
            option = "" if self.name == "default" else f" --kb {self.name}"
            raise SourceNotFoundError(
                f"there is no knowledge base {self.name!r} in {self.home}{known}. Make it with: kb add PATH{option}"
            )
        return self._open(read_only=read_only or not os.access(folder, os.W_OK))

    def _open(self, *, read_only: bool) -> "LocalKB":
        from kb_core.local import LocalKB

        return LocalKB(self.name, path=self.home, embedder=parameters.make_embedder(self.embedder), read_only=read_only)

    def _check_name(self) -> None:
        from kb_core.opening import check_name

        try:
            check_name(self.name)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--kb") from error


def names_in(home: Path) -> list[str]:
    """List the knowledge bases in a folder, by name."""
    return sorted(found.parent.name for found in home.glob("*/kb.sqlite"))


def _note(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    target = ctx.find_root().ensure_object(Target)
    if value is not None and parameter.name is not None:
        setattr(target, parameter.name, value)


def kb_options(*, embedder: bool = True) -> Callable[[Command], Command]:
    """Give a command the options that choose the knowledge base and the output.

    Args:
        embedder: Also the one that chooses the embedder, for commands that embed.
    """
    options: list[tuple[str, dict[str, Any]]] = [
        ("--kb", {"type": parameters.text, "metavar": "NAME", "help": "Its name. [default: $KB_NAME, else default]"}),
        (
            "--path",
            {
                "type": parameters.folder,
                "metavar": "DIR",
                "help": "The folder it lies in. [default: $KB_HOME, else .kb]",
            },
        ),
        ("--embedder", {"type": parameters.embedder_spec, "metavar": "SPEC", "help": _EMBEDDER_HELP}),
        ("--json", {"is_flag": True, "default": None, "help": "Print one JSON document."}),
    ]

    def decorate(command: Command) -> Command:
        for name, attributes in reversed(options):
            if embedder or name != "--embedder":
                option = click.option(name, cls=TargetOption, expose_value=False, callback=_note, **attributes)
                command = option(command)
        return command

    return decorate


pass_target = click.make_pass_decorator(Target, ensure=True)
