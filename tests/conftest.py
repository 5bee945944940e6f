"""What all tests share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb_core import LocalKB

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may wait for a model hub


@pytest.fixture
def make_kb(tmp_path: Path) -> Iterator[Callable[..., LocalKB]]:
    """Open knowledge bases in one temporary folder, closed after the test."""
    opened: list[LocalKB] = []

    def make(name: str = "docs", **options: object) -> LocalKB:
        kb = LocalKB(name, path=tmp_path / "kbs", **options)
        opened.append(kb)
        return kb

    yield make
    for kb in opened:
        kb.close()
