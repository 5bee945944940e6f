"""Importing kb_openai_agents with and without the SDK."""

import subprocess
import sys

import pytest

import kb_openai_agents


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_the_sdk_the_error_names_the_extra() -> None:
    done = run("import sys; sys.modules['agents'] = None\nimport kb_openai_agents")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        'ImportError: kb_openai_agents needs openai-agents: pip install "kb-core[openai-agents]"'
    )


def test_a_broken_install_of_the_sdk_is_not_called_a_missing_one() -> None:
    done = run("import sys; sys.modules['openai'] = None\nimport kb_openai_agents")  # which openai-agents depends on
    assert done.returncode == 1
    assert "openai" in done.stderr.splitlines()[-1]
    assert "kb-core[openai-agents]" not in done.stderr


def test_the_core_loads_no_part_of_the_sdk() -> None:
    done = run(
        "import sys, kb_core, kb_core.tool, kb_core.embedders, kb_core.formatting\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('agents', 'openai', 'kb_openai_agents')])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", kb_openai_agents.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert (getattr(kb_openai_agents, name).__doc__ or "").strip()


def test_all_is_sorted() -> None:
    assert sorted(kb_openai_agents.__all__) == kb_openai_agents.__all__
