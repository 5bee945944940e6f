"""What the wheel carries is what the folders hold."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_adapter_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    adapters = {f"adapters/{folder.name}" for folder in (ROOT / "adapters").iterdir() if folder.is_dir()}
    assert set(packages) == {"kb_core"} | {name for name in adapters if "__pycache__" not in name}


def test_every_adapter_says_that_it_is_typed():
    assert all((folder / "py.typed").exists() for folder in (ROOT / "adapters").glob("kb_*"))


def test_every_extra_is_in_all():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    named = extras["all"][0].removeprefix("kb-core[").removesuffix("]").split(",")
    assert set(named) == set(extras) - {"all", "testing"}
