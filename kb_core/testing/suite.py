"""The base of every contract suite."""

from typing import Any


class Suite:
    """A set of tests that a subclass may add to but not bend.

    A subclass that knows better than one of the tests overrides it under `@pytest.mark.xfail(reason="…")`, so that the
    deviation stands in every report. Any other override is a `TypeError` when the class is created.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in dir(cls):
            if not name.startswith("test"):
                continue
            # Through the whole MRO: a mixin before the suite overrides as well as the class body does.
            found = [vars(owner)[name] for owner in cls.__mro__ if name in vars(owner)]
            if len(found) > 1 and not _is_xfail_with_reason(found[0]):
                raise TypeError(
                    f"{cls.__qualname__} overrides {name} of its suite; "
                    'mark it @pytest.mark.xfail(reason="…") if the store cannot pass it, else leave it alone'
                )


def _is_xfail_with_reason(test: object) -> bool:
    """Tell whether a test carries `xfail` with a reason that says something."""
    marks = getattr(test, "pytestmark", [])
    return any(mark.name == "xfail" and str(mark.kwargs.get("reason") or "").strip() for mark in marks)
