"""Ways to run `kb` in tests: in this process or as one of its own, into a pipe or on a terminal."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kb_core.cli import cli

HANDBOOK = {
    "returns.md": "# Returns\n\nUnused items can be sent back within 30 days.\n",
    "shipping.md": "# Shipping\n\nParcels to Norway take five working days.\n",
    "errors.md": "# Errors\n\nE-4012 means that the key has expired.\n",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory whose knowledge bases go to `.kb`."""
    for name in ("KB_HOME", "KB_NAME", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_handbook(folder: Path) -> Path:
    folder.mkdir()
    for name, text in HANDBOOK.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def handbook(home: Path) -> Path:
    """A folder `handbook` with three short documents."""
    return write_handbook(home / "handbook")


@pytest.fixture
def kb(home: Path) -> Callable[..., Result]:
    """Runs a command in this process. Give `code` where another exit code than 0 is right."""

    def run(*args: str, code: int = 0, typed: str | None = None, charset: str = "utf-8") -> Result:
        result = CliRunner(charset=charset).invoke(cli, args, input=typed, prog_name="kb")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def answer(kb: Callable[..., Result]) -> Callable[..., object]:
    """Runs a command with `--json` and reads what it prints, strictly."""

    def run(*args: str, code: int = 0) -> object:
        return json.loads(kb(*args, "--json", code=code).stdout, parse_constant=pytest.fail)

    return run


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    write_handbook(folder / "handbook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        added = CliRunner().invoke(cli, ["add", "handbook", "--path", ".kb", "--embedder", "hashing"])
    assert added.exit_code == 0, added.output
    return folder


@pytest.fixture
def filled(home: Path, filled_once: Path) -> Path:
    """A knowledge base `default` with the handbook in it."""
    shutil.copytree(filled_once, home, dirs_exist_ok=True)
    return home / "handbook"


@pytest.fixture
def process(home: Path) -> Callable[..., "subprocess.CompletedProcess[bytes]"]:
    """Runs `python -m kb_core` as a process of its own, with these environment variables changed."""

    def run(*args: str, typed: bytes | None = None, **environment: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-m", "kb_core", *args],
            input=typed,
            capture_output=True,
            env={**os.environ, **environment},
            check=False,
            timeout=120,
        )

    return run


class Screen:
    """What the program printed so far, and the same without colours."""

    def __init__(self) -> None:
        self._raw = b""

    def write(self, part: bytes) -> None:
        self._raw += part

    @property
    def raw(self) -> str:
        return self._raw.decode().replace("\r\n", "\n")

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw)


@contextmanager
def open_pseudo_terminal(columns: int) -> Iterator[tuple[int, Screen]]:
    """Open one, and collect what is written to it until it is closed; gives its file descriptor and its screen."""
    pty = pytest.importorskip("pty", reason="pseudo-terminals exist on POSIX alone")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    screen = Screen()

    def collect() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # so Linux says that the other end is closed
                return
            if not part:
                return
            screen.write(part)

    reader = threading.Thread(target=collect)
    reader.start()
    try:
        yield theirs, screen
    finally:
        os.close(theirs)
        reader.join(timeout=60)
        os.close(ours)


@pytest.fixture
def pseudo_terminal() -> Callable[[int], AbstractContextManager[tuple[int, Screen]]]:
    """Opens a pseudo-terminal of so many columns."""
    return open_pseudo_terminal


@pytest.fixture
def terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Screen]:
    """Runs a command in this process with standard output and error on a terminal of 80 columns."""

    def run(*args: str) -> Screen:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        with (
            open_pseudo_terminal(80) as (descriptor, screen),
            open(descriptor, "w", encoding="utf-8", closefd=False) as stream,
            redirect_stdout(stream),
            redirect_stderr(stream),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main(list(args), prog_name="kb")
        assert ended.value.code == 0, screen.text
        return screen

    return run
