"""Names of files: as citations, and as strings that may or may not be meant as one."""

import os
import re
from pathlib import Path, PurePath

from kb_core.loaders.formats import known_suffixes

_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4096
# What no path has that a person types: quotes and angle brackets of markup or code, and sentences of scripts that write
# without spaces.
_NEVER_IN_PATHS = re.compile(r'[\s<>"|\0。！？]')


def source_name(path: str | Path) -> str:
    """Give the name under which a file is cited: the path as the user gave it, with forward slashes.

    Relative stays relative, so that a knowledge base can be moved, and two folders with equal file names stay apart:
    `handbook/returns.md`. A byte in a name that is not UTF-8 is escaped in hexadecimal, so that two such names don't
    become one; the locale does not matter.
    """
    name = PurePath(path).as_posix()
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a name that this locale cannot express
        return name


def looks_like_path(text: str) -> bool:
    """Tell whether a string that names nothing on disk was most likely meant as a path.

    It has a slash, a backslash or a suffix of a known file type (of any known type, also one that no loader reads), and
    no white space. So `docs/missing.pdf`, `notes.md`, `C:/docs` and `and/or` look like paths; `hello`, `3.14`,
    `e.g. this/that` and `""` do not. URLs do: they are not fetched, and none is a text worth searching. Not taken for a
    path is what no file name is: markup and quoted code (`<b>x</b>`), CJK sentences, names beyond 255 bytes.

    White space around the string is ignored: a line end that was read with a name does not make it a text.
    """
    name = text.strip()
    if not name or _NEVER_IN_PATHS.search(name) or len(name.encode("utf-8", "replace")) > _MAX_PATH_BYTES:
        return False
    if any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in re.split(r"[/\\]", name)):
        return False
    return "/" in name or "\\" in name or PurePath(name).suffix.lower() in known_suffixes
