"""What a person reads before a first command, and how soon."""

import subprocess
import sys

import pytest

from kb_core._version import __version__
from kb_core.cli import cli

COMMANDS = sorted(cli.commands)


def test_the_commands_are_those_that_the_documentation_names():
    assert COMMANDS == ["add", "clear", "delete", "demo", "list", "reembed", "search", "show", "status"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_of_itself(kb, name):
    help_ = kb(name, "--help").stdout
    first = help_.split("\n\n")[1].strip()
    assert first.endswith(".")
    assert "..." not in first  # not cut off
    assert f"kb {name}" in help_.split("Examples:")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name):
    for parameter in cli.commands[name].params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"kb {name} {parameter.opts[-1]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_into_80_columns(kb, name):
    assert max(map(len, kb(name, "--help").stdout.splitlines())) <= 80


def test_the_list_of_commands_shows_whole_sentences(kb):
    listed = kb("--help").stdout.split("Commands:")[1].split("\n\n")[0].strip().splitlines()
    assert len(listed) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def test_the_version_is_the_package_s(kb):
    assert kb("--version").stdout == f"kb, version {__version__}\n"


def test_a_mistyped_command_is_a_usage_error_that_names_the_right_one(kb):
    assert "search" in kb("serch", code=2).stderr


def test_looking_into_a_knowledge_base_loads_no_model_and_no_engine(filled):
    program = """
import sys
from kb_core.cli import cli
for args in (["--help"], ["list"], ["list", "--json"], ["status"], ["show", "returns.md"]):
    cli.main(args, prog_name="kb", standalone_mode=False)
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(ended.stderr.split())
    assert "sqlite3" in loaded
    assert not loaded & {"fastembed", "onnxruntime", "wordllama", "faiss", "tantivy", "openai", "rich"}
