"""Importing kb_langchain with and without LangChain."""

import subprocess
import sys

import pytest

import kb_langchain


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_langchain_the_error_names_the_extra() -> None:
    done = run("import sys; sys.modules['langchain_core'] = None\nimport kb_langchain")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: kb_langchain needs langchain-core: pip install "kb-core[langchain]"'
    )


def test_a_broken_install_of_langchain_is_not_called_a_missing_one() -> None:
    # langsmith is a dependency of langchain-core.
    done = run("import sys; sys.modules['langsmith'] = None\nimport kb_langchain")
    assert done.returncode == 1
    assert "langsmith" in done.stderr.splitlines()[-1]
    assert "kb-core[langchain]" not in done.stderr


def test_the_core_loads_no_part_of_langchain() -> None:
    done = run(
        "import sys, kb_core, kb_core.tool, kb_core.embedders, kb_core.formatting\n"
        "print([name for name in sys.modules if name.startswith(('langchain', 'langsmith', 'kb_langchain'))])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_adapter_needs_langchain_core_alone() -> None:
    done = run(
        "import sys, kb_langchain\n"
        "print([name for name in ('langchain', 'langchain_classic', 'langgraph') if name in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", kb_langchain.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert (getattr(kb_langchain, name).__doc__ or "").strip()


def test_all_is_sorted() -> None:
    assert sorted(kb_langchain.__all__) == kb_langchain.__all__
