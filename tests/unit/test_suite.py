"""The base class of the contract suites."""

import pytest

from kb_core.testing.suite import Suite


class Contract(Suite):
    def test_a(self) -> None: ...

    def helper(self) -> int:
        return 1


def test_a_subclass_may_add_tests_and_override_what_is_no_test() -> None:
    class Wider(Contract):
        def test_b(self) -> None: ...

        def helper(self) -> int:
            return 2

    assert Wider().helper() == 2


def test_an_override_without_a_reason_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Bent overrides test_a .*xfail"):

        class Bent(Contract):
            def test_a(self) -> None: ...


@pytest.mark.parametrize("mark", [pytest.mark.xfail, pytest.mark.xfail(reason=" "), pytest.mark.skip(reason="slow")])
def test_another_mark_or_no_reason_does_not_help(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(TypeError, match="overrides test_a"):
        type("Bent", (Contract,), {"test_a": mark(lambda self: None)})


def test_taking_a_test_away_is_an_override() -> None:
    with pytest.raises(TypeError, match="overrides test_a"):
        type("Bent", (Contract,), {"test_a": None})


def test_an_override_through_a_mixin_is_refused() -> None:
    class Mixin:
        def test_a(self) -> None: ...

    with pytest.raises(TypeError, match="overrides test_a"):
        type("Bent", (Mixin, Contract), {})


def test_an_expected_failure_with_a_reason_is_let_through() -> None:
    class Honest(Contract):
        @pytest.mark.xfail(reason="this engine cannot")
        def test_a(self) -> None: ...

    class Heir(Honest):
        def test_b(self) -> None: ...

    assert issubclass(Heir, Contract)
