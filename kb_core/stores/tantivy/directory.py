"""The files of a keyword store: one Tantivy index at a time, and what it mirrors.

```
state.json      which generation counts, its revision, checksums of its files; replaced in one step, after the index
<generation>/   a Tantivy index
lock            held by the process that writes
```

A process that dies leaves at worst an index that is newer than `state.json` says, to which the same changes are applied
once more, or a generation that no state names, which the next writer removes.
"""

import json
import logging
import os
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb_core.stores.folders import make_private
from kb_core.stores.lock import file_lock
from kb_core.stores.tantivy.schema import SCHEMA_VERSION, register_tokenizer

if TYPE_CHECKING:
    import tantivy

_log = logging.getLogger(__name__)

_MAX_TRIES = 3
# Tantivy rewrites or locks these; each of the others is written once.
_MUTABLE = {"meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock"}
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, OSError)


@dataclass(frozen=True)
class State:
    """What `state.json` holds.

    Attributes:
        format: Of the schema and of the analysis.
        revision: That the index has been brought up to, at least.
        generation: The folder of the index.
        checksums: CRC-32 by file name.
    """

    format: str
    revision: int
    generation: str
    checksums: Mapping[str, int]


class IndexDirectory:
    """Opens and publishes the generations of an index. Raises `OSError` where the disk refuses.

    Args:
        path: Made at the first `publish`.
        fingerprint: The analyzer's; an index by another one counts as none.
        read_only: Leave no trace in the directory; every method but `load` is out of bounds.
    """

    def __init__(self, path: Path, fingerprint: str, *, read_only: bool) -> None:
        self.path = path
        self._format = f"{SCHEMA_VERSION}/{fingerprint}"
        self._read_only = read_only

    def load(self) -> "tuple[State, tantivy.Index] | None":
        """Open the index that counts; None where there is none, or, with a warning, where it is damaged."""
        failure: Exception | None = None
        for _ in range(_MAX_TRIES):
            try:
                state = self._read_state()
                return None if state is None else (state, self.open(state))
            except _DAMAGE as error:
                failure = error  # or another process is just putting a new generation in its place
        _log.warning("The keyword index in %s is damaged and will be rebuilt: %s", self.path, failure)
        return None

    def state(self) -> State | None:
        """Read the state; None where there is none, or it is damaged or of another format."""
        try:
            return self._read_state()
        except _DAMAGE:
            return None

    def _read_state(self) -> State | None:
        try:
            envelope = json.loads((self.path / "state.json").read_bytes())
        except FileNotFoundError:
            return None
        if zlib.crc32(envelope["state"].encode()) != envelope["crc"]:
            raise ValueError("the checksum of state.json does not fit")
        state = State(**json.loads(envelope["state"]))
        return state if state.format == self._format else None

    def open(self, state: State) -> "tantivy.Index":
        """Open the index of a state.

        Raises:
            ValueError: It is damaged.
        """
        folder = self.path / state.generation
        for name, checksum in state.checksums.items():
            # Merged away where a process died before it could say so; Tantivy knows which files it needs.
            if (folder / name).exists() and _checksum(folder / name) != checksum:
                raise ValueError(f"the checksum of {name} does not fit")
        return _open_by_links(folder) if self._read_only else _open(folder)

    def lock(self) -> AbstractContextManager[bool]:
        """Try to become the one process that writes; yields whether it worked."""
        make_private(self.path)
        return file_lock(self.path / "lock")

    def new_generation(self) -> str:
        """Make the folder for another index."""
        generation = uuid.uuid4().hex[:12]
        (self.path / generation).mkdir(mode=0o700)
        return generation

    def publish(self, generation: str, revision: int, former: State | None) -> State:
        """Make a generation the one that counts, on disk when this returns, and remove all others."""
        for file in (self.path / generation).iterdir():
            file.chmod(0o600)
        files = [file for file in (self.path / generation).iterdir() if file.name not in _MUTABLE]
        known = former.checksums if former and former.generation == generation else {}
        checksums = {file.name: known.get(file.name) or _checksum(file) for file in files}
        state = State(self._format, revision, generation, checksums)
        self._replace_state(state)
        self._remove_others(generation)
        return state

    def forget(self) -> None:
        """Remove every generation."""
        (self.path / "state.json").unlink(missing_ok=True)
        self._remove_others("")

    def _replace_state(self, state: State) -> None:
        text = json.dumps(asdict(state))
        envelope = json.dumps({"crc": zlib.crc32(text.encode()), "state": text})
        draft = self.path / "state.json.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(envelope)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / "state.json")
        if os.name != "nt":  # the rename itself is durable once the folder is
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _remove_others(self, generation: str) -> None:
        for entry in self.path.iterdir():
            if entry.is_dir() and entry.name != generation:
                shutil.rmtree(entry, ignore_errors=True)  # open in another process, on Windows: the next one tries


def _open(folder: Path) -> "tantivy.Index":
    import tantivy

    index = tantivy.Index.open(str(folder))
    index.config_reader("manual")
    index.searcher()
    register_tokenizer(index)
    return index


def _open_by_links(folder: Path) -> "tantivy.Index":
    """Open an index whose folder may not be written: Tantivy wants a lock file beside what it reads."""
    with tempfile.TemporaryDirectory(prefix="kb-keywords-") as name:
        for file in folder.iterdir():
            if not file.name.endswith(".lock"):
                _link(file, Path(name) / file.name)
        return _open(Path(name))  # which maps every file, so that the links may go


def _link(file: Path, link: Path) -> None:
    try:
        link.symlink_to(file.absolute())
    except OSError:  # Windows grants symbolic links to developers only
        shutil.copyfile(file, link)


def _checksum(file: Path) -> int:
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum
