"""Which files of a folder are worth loading."""

import fnmatch
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kb_core.errors import LoaderError, SourceNotFoundError
from kb_core.loaders.formats import LOADERS, UNREADABLE_SUFFIXES
from kb_core.loaders.paths import source_name
from kb_core.loaders.text import SNIFFED_BYTES, is_binary

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_log = logging.getLogger(__name__)

JUNK_FOLDERS = frozenset({
    "__pycache__", "node_modules", "bower_components", "__pypackages__", "site-packages", "__MACOSX", "CVS", "_darcs",
})  # fmt: skip
JUNK_FILES = ("*~", "~$*", "#*#", "Thumbs.db", "desktop.ini", "ehthumbs.db")
MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG", "kb.sqlite"})
"""Files by which a folder says what it is: a virtual environment; a cache (https://bford.info/cachedir/, as written by
cargo, pytest, mypy, ruff and many more); a knowledge base."""

_NEVER_BEHIND_LINKS = JUNK_FOLDERS | {".git", ".hg", ".svn", ".bzr"}


def walk(
    folder: str | Path,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    on_error: Callable[[Path, LoaderError], None] | None = None,
    on_skip: Callable[[Path, str], None] | None = None,
) -> Iterator[Path]:
    """Find the files below a folder that can be loaded.

    Left out: hidden files and folders (their name begins with a dot; `.git` and `.env` among them), folders of
    dependencies, caches and virtual environments, editors' backups and lock files, files that no loader reads, and what
    is no regular file. The folder itself may have any name. `.gitignore` files are not looked at.

    A link is followed where it leads to something below the folder that has not been found by itself, such as a hidden
    folder; a link that leads out is not, as what lies there was not named.

    Args:
        folder: What `str(path)` begins with for every path found.
        include: Patterns as in `.gitignore`, relative to the folder; only files that match one are found. None: all.
        exclude: Patterns; files that match one are left out, and so is everything below a folder that does. Goes before
            `include`.
        on_error: Told of a folder that cannot be read, the walk goes on; without it, a warning is logged.
        on_skip: Told of each file that was left out for its kind, with the reason.

    Returns:
        Each file once, folder by folder in order of names (code points), links after everything else.

    Raises:
        SourceNotFoundError: There is no such folder.
        ValueError: A pattern is not valid.
    """
    root = Path(folder)
    if not root.is_dir():
        kind = "it is a file" if root.exists() else "there is no such folder"
        raise SourceNotFoundError(f"{source_name(root)!r}: {kind}")
    patterns = _Patterns(_spec(include), _spec(exclude))
    return _Walk(root, patterns, on_error or _log_error, on_skip or _ignore).files()


def _spec(patterns: Iterable[str]) -> "GitIgnoreSpec | None":
    lines = [patterns] if isinstance(patterns, str) else list(patterns)
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _log_error(path: Path, error: LoaderError) -> None:
    del path  # the message names it
    _log.warning("%s", error)


def _ignore(path: Path, reason: str) -> None:
    pass


@dataclass(frozen=True)
class _Patterns:
    include: "GitIgnoreSpec | None"
    exclude: "GitIgnoreSpec | None"

    def takes_folder(self, relative: str) -> bool:
        return self.exclude is None or not self.exclude.match_file(relative + "/")

    def takes_file(self, relative: str) -> bool:
        if self.exclude is not None and self.exclude.match_file(relative):
            return False
        return self.include is None or self.include.match_file(relative)


class _Entry(NamedTuple):
    path: Path
    real_path: str
    relative: str
    is_folder: bool


@dataclass
class _Walk:
    root: Path
    patterns: _Patterns
    on_error: Callable[[Path, LoaderError], None]
    on_skip: Callable[[Path, str], None]
    _links: list[Path] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def files(self) -> Iterator[Path]:
        real_root = os.path.realpath(self.root)
        yield from self._below(_Entry(self.root, real_root, "", is_folder=True))
        for link in self._links:  # grows meanwhile: a link may lead to a folder that holds links
            yield from self._behind(link, real_root)

    def _behind(self, link: Path, real_root: str) -> Iterator[Path]:
        target = Path(os.path.realpath(link))
        relative = link.relative_to(self.root).as_posix()
        entry = _Entry(link, str(target), relative, target.is_dir())
        if not target.is_relative_to(real_root):
            self.on_skip(link, "a link that leads out of the folder")
        elif not entry.is_folder and not target.is_file():
            self.on_skip(link, "a link to nothing, in a circle, or to no regular file")
        elif _NEVER_BEHIND_LINKS.isdisjoint(target.relative_to(real_root).parts):
            yield from self._below(entry) if entry.is_folder else self._file(entry)

    def _below(self, folder: _Entry) -> Iterator[Path]:
        stack = [self._entries(folder)]  # instead of recursion: a tree may be deeper than Python's stack
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
            elif entry.is_folder:
                stack.append(self._entries(entry))
            else:
                yield from self._file(entry)

    def _entries(self, folder: _Entry) -> Iterator[_Entry]:
        if folder.real_path in self._seen or (folder.relative and not self.patterns.takes_folder(folder.relative)):
            return
        self._seen.add(folder.real_path)
        try:
            with os.scandir(folder.path) as found:
                children = sorted(found, key=lambda child: child.name)
        except OSError as error:
            reason = f"{source_name(folder.path)!r}: the folder cannot be read: {error.strerror}"
            self.on_error(folder.path, LoaderError(reason))
            return
        if folder.relative and not MARKERS.isdisjoint(child.name for child in children):
            return
        for child in children:
            entry = self._entry(folder, child)
            if entry is not None:
                yield entry

    def _entry(self, folder: _Entry, child: os.DirEntry[str]) -> _Entry | None:
        if child.name.startswith("."):
            return None
        path = folder.path / child.name
        is_folder = child.is_dir(follow_symlinks=False)
        if child.is_symlink():
            self._links.append(path)
        elif is_folder or child.is_file(follow_symlinks=False):
            if child.name not in JUNK_FOLDERS or not is_folder:
                relative = f"{folder.relative}/{child.name}" if folder.relative else child.name
                return _Entry(path, os.path.join(folder.real_path, child.name), relative, is_folder)  # noqa: PTH118
        else:
            self.on_skip(path, "a pipe, socket or device")
        return None

    def _file(self, entry: _Entry) -> Iterator[Path]:
        name = entry.path.name
        is_junk = any(fnmatch.fnmatchcase(name, pattern) for pattern in JUNK_FILES)
        if is_junk or entry.real_path in self._seen or not self.patterns.takes_file(entry.relative):
            return
        self._seen.add(entry.real_path)
        reason = _reason_to_skip(entry.path)
        if reason:
            self.on_skip(entry.path, reason)
        else:
            yield entry.path


def _reason_to_skip(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in LOADERS:
        return ""
    if suffix in UNREADABLE_SUFFIXES:
        return f"no loader reads {suffix} files"
    try:
        with path.open("rb") as file:
            head = file.read(SNIFFED_BYTES)
    except OSError:
        return ""  # loading it will say what is wrong
    return "a binary file" if is_binary(head, is_named_text=False) else ""
