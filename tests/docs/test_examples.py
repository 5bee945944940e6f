"""Every example runs by itself, offline, in an empty folder, and prints what stands in `printed/`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = Path(__file__).parent / "printed"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.py"))
MAX_LINES = 60


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_is_said_to_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KB_", "OPENAI_"))}
    # Proxies that nobody listens on: an example that looks for something on the network fails.
    environment |= {"PYTHONUTF8": "1", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.stderr == ""
    assert done.stdout == (PRINTED / f"{name}.txt").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert f"python examples/{name}.py" in text
    assert text.count("\n") < MAX_LINES


def test_no_printed_text_is_left_of_an_example_that_is_gone() -> None:
    assert sorted(file.stem for file in PRINTED.iterdir()) == NAMES


def test_the_corpus_is_small_and_has_documents_of_several_kinds() -> None:
    files = list((EXAMPLES / "corpus").iterdir())
    assert {file.suffix for file in files} == {".md", ".txt", ".csv", ".json", ".html", ".py"}
    assert 8 <= len(files) <= 12
    assert sum(file.stat().st_size for file in files) < 100_000
