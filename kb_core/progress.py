"""A progress bar for work that a person waits for; a terminal only."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_SHORT = 8
"""Fewer steps than this are over before a bar could be read."""


def track(steps: Iterable[T], total: int, description: str, *, is_wanted: bool | None) -> Iterator[T]:
    """Yield the steps, drawing a bar on standard error while they are taken.

    Args:
        steps: What is done, one after the other.
        total: How many there are.
        description: What is being done, "Adding".
        is_wanted: None: where standard error is a terminal and the work is long; False: never.
    """
    is_shown = sys.stderr.isatty() and (total >= _SHORT if is_wanted is None else is_wanted)
    if not is_shown:
        yield from steps
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(steps, total=total, description=description)
