"""Importing kb_llamaindex with and without LlamaIndex."""

import subprocess
import sys

import pytest

import kb_llamaindex


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("missing", ["llama_index", "llama_index.core"])
def test_without_llamaindex_the_error_names_the_extra(missing: str) -> None:
    done = run(f"import sys; sys.modules[{missing!r}] = None\nimport kb_llamaindex")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: kb_llamaindex needs llama-index-core: pip install "kb-core[llamaindex]"'
    )


def test_a_broken_install_of_llamaindex_is_not_called_a_missing_one() -> None:
    # deprecated is a dependency of llama-index-core.
    done = run("import sys; sys.modules['deprecated'] = None\nimport kb_llamaindex")
    assert done.returncode == 1
    assert "deprecated" in done.stderr.splitlines()[-1]
    assert "kb-core[llamaindex]" not in done.stderr


def test_the_core_loads_no_part_of_llamaindex() -> None:
    done = run(
        "import sys, kb_core, kb_core.tool, kb_core.embedders, kb_core.formatting\n"
        "print([name for name in sys.modules if name.startswith(('llama_index', 'kb_llamaindex'))])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", kb_llamaindex.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert (getattr(kb_llamaindex, name).__doc__ or "").strip()


def test_all_is_sorted() -> None:
    assert sorted(kb_llamaindex.__all__) == kb_llamaindex.__all__
