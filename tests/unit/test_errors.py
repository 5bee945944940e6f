# ruff: noqa: S301  # only our own pickles are read
import copy
import inspect
import pickle

import pytest

from kb_core import errors
from kb_core.errors import KBError, PlatformRateLimitError, SourceNotFoundError

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, BaseException)]
DUPLICATES = [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]


def test_every_error_descends_from_the_root():
    assert all(issubclass(kind, KBError) for kind in CLASSES)


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    drawn: dict[str, str] = {}
    parents: list[str] = []
    for line in inspect.getdoc(errors).split("```")[1].strip().splitlines():
        name = line.lstrip("│├└─ ").split()[0]
        level = (len(line) - len(line.lstrip("│├└─ "))) // 4
        parents[level:] = [name]
        drawn[name] = parents[level - 1] if level else ""
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ if kind is not KBError else "" for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "deepcopy", "pickle"])
def test_an_error_crosses_processes_and_keeps_its_message(kind, duplicate):
    again = duplicate(kind("no such file: a.md"))
    assert type(again) is kind
    assert str(again) == "no such file: a.md"
    assert again.args == ("no such file: a.md",)


@pytest.mark.parametrize("duplicate", DUPLICATES, ids=["copy", "deepcopy", "pickle"])
def test_a_rate_limit_keeps_how_long_to_wait(duplicate):
    assert duplicate(PlatformRateLimitError("slow down", retry_after=2.5)).retry_after == 2.5
    assert duplicate(PlatformRateLimitError("slow down")).retry_after is None


def test_errors_are_caught_by_the_builtin_kind_that_people_expect():
    assert issubclass(SourceNotFoundError, FileNotFoundError)
    assert issubclass(errors.InvalidFilterError, ValueError)


def test_a_missing_source_prints_its_message_and_no_errno():
    assert str(SourceNotFoundError("no such file: a.md")) == "no such file: a.md"
    assert str(SourceNotFoundError()) == ""
