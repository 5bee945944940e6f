"""Files in, documents out: one module for each family of formats, and what they share.

`walk` finds the files of a folder, `load_file` reads one. Nothing here knows of stores or chunks. The libraries for
the formats are imported when a file of their kind is met.
"""

from kb_core.loaders.file import load_file
from kb_core.loaders.folder import walk
from kb_core.loaders.formats import known_suffixes
from kb_core.loaders.loaded import Limits, LoadedFile
from kb_core.loaders.paths import looks_like_path, source_name

__all__ = ["Limits", "LoadedFile", "known_suffixes", "load_file", "looks_like_path", "source_name", "walk"]
