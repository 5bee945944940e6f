"""Large test data, where there is some: beside the checkout, or where `KB_SHARED` says."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("KB_SHARED") or Path(__file__).parents[2] / "shared")
JUDGED_SETS = SHARED / "data" / "ir"
CORPUS = SHARED / "data" / "docs-100k.jsonl.gz"
MINILM = SHARED / "models" / "all-MiniLM-L6-v2-int8"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skip a test where the data is absent."""
    return pytest.mark.skipif(not path.exists(), reason=f"{path.name} is not in the folder of shared test data")
