"""Folders that only their owner can look into."""

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, each with mode 0700: `mkdir` gives it to the last alone."""
    for parent in reversed(folder.parents):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
