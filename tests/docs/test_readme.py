"""What the README says is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(README) if found == language]


def test_the_ten_lines_print_what_the_readme_says():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks("python")[0]],
        cwd=ROOT,
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.stdout == blocks("text")[0]


@pytest.mark.parametrize("code", blocks("python"))
def test_every_python_block_is_python(code):
    compile(code, "README.md", "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT


def test_both_commands_stand_on_the_first_screen():
    first_screen = README.splitlines()[:50]
    assert sum("kb demo" in line for line in first_screen) == 1
    assert sum("-m pytest" in line for line in first_screen) == 1
