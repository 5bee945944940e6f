import inspect

import pytest

from kb_core import protocols
from kb_core.filters import parse_filter
from kb_core.protocols import Hit, KnowledgeBase, Selection


def test_a_hit_is_an_id_and_a_score():
    id_, score = Hit("c", 0.5)
    assert (id_, score) == ("c", 0.5)


def test_a_selection_finds_its_ids_once_and_only_when_asked():
    calls = []

    def find():
        calls.append(1)
        return ["a", "b", "a"]

    selection = Selection(find, where=parse_filter({"k": 1}))
    assert calls == []
    assert selection.ids == frozenset({"a", "b"})
    assert selection.ids is selection.ids
    assert calls == [1]
    assert selection.where == parse_filter({"k": 1})


def test_a_selection_of_known_ids_has_no_filter():
    ids = frozenset({"a"})
    assert Selection(ids).ids is ids
    assert Selection(["a"]).ids == ids
    assert Selection([]).ids == frozenset()
    assert Selection(ids).where is None


def test_selections_are_told_apart_by_identity_so_that_a_store_may_key_a_cache_on_one():
    one, other = Selection(["a"]), Selection(["a"])
    assert len({one, other}) == 2


@pytest.mark.parametrize(
    "protocol",
    [value for value in vars(protocols).values() if inspect.isclass(value) and getattr(value, "_is_protocol", False)],
)
def test_every_method_of_a_protocol_says_what_it_promises(protocol):
    for name, member in vars(protocol).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            assert inspect.getdoc(member), f"{protocol.__name__}.{name}"


def test_search_and_its_async_twin_take_the_same_arguments():
    one, other = inspect.signature(KnowledgeBase.search), inspect.signature(KnowledgeBase.asearch)
    assert one.parameters == other.parameters
