import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_core.embedders import (
    FastEmbedEmbedder,
    HashingEmbedder,
    OpenAIEmbedder,
    StaticEmbedder,
    choose_embedder,
    embedder_from_config,
)
from kb_core.embedders import static as static_module
from kb_core.errors import EmbedderUnavailableError


@pytest.fixture
def nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.usefixtures("no_network")
def test_a_cached_model_comes_first_and_without_a_warning(
    cached_model: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(cached_model[0]))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert isinstance(choose_embedder(), FastEmbedEmbedder)
    assert warnings_in(caplog) == []


@pytest.mark.usefixtures("nothing_cached")
def test_openai_comes_second_where_there_is_a_key(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert isinstance(choose_embedder(), OpenAIEmbedder)
    assert len(warnings_in(caplog)) == 1


@pytest.mark.usefixtures("nothing_cached")
def test_static_vectors_come_third_with_one_warning_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(choose_embedder(), StaticEmbedder)
    (warning,) = warnings_in(caplog)
    assert warning.startswith(
        "Using StaticEmbedder: embedding model BAAI/bge-small-en-v1.5 is not available: it is not"
    )
    assert "model_path=" in warning


@pytest.mark.usefixtures("nothing_cached")
def test_hashing_is_the_last_resort_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(static_module, "_PACKAGE", "no_such_package")
    assert isinstance(choose_embedder(), HashingEmbedder)
    (warning,) = warnings_in(caplog)
    assert "Using HashingEmbedder: It knows spelling but no meaning" in warning
    assert "bge-small" in warning
    assert "'no_such_package', which is not installed" in warning


def test_hashing_chosen_by_the_user_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    HashingEmbedder().embed_query("hello")
    assert warnings_in(caplog) == []


def test_each_family_is_built_again_from_its_config(make_model: Callable[..., Path]) -> None:
    for embedder in (
        FastEmbedEmbedder(),
        FastEmbedEmbedder(model_path=make_model(), query_prefix="q: ", pooling="cls"),
        OpenAIEmbedder("text-embedding-3-large", dimensions=64),
        StaticEmbedder(),
        HashingEmbedder(64),
    ):
        rebuilt = embedder_from_config(json.loads(json.dumps(embedder.config())))
        assert type(rebuilt) is type(embedder)
        assert rebuilt.fingerprint == embedder.fingerprint
        assert rebuilt.config() == embedder.config()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no embedder None in this release"),
        ({"class": "QuantumEmbedder"}, "no embedder 'QuantumEmbedder' in this release; it has FastEmbedEmbedder"),
        ({"class": "HashingEmbedder"}, "recorded configuration of HashingEmbedder is not valid"),
        ({"class": "OpenAIEmbedder", "colour": "red"}, "recorded configuration of OpenAIEmbedder is not valid"),
        ({"class": "FastEmbedEmbedder", "model_path": "/no/such"}, "must be a directory with an ONNX model"),
    ],
)
def test_a_config_that_cannot_be_built_is_unavailable(config: dict[str, object], message: str) -> None:
    with pytest.raises(EmbedderUnavailableError, match=message):
        embedder_from_config(config)


def test_importing_the_package_imports_no_engine() -> None:
    code = (
        "import sys, kb_core.embedders as e; assert 'FastEmbedEmbedder' in dir(e);"
        "from kb_core.embedders import FastEmbedEmbedder; FastEmbedEmbedder().fingerprint;"
        "heavy = {'fastembed', 'onnxruntime', 'wordllama', 'tokenizers', 'huggingface_hub', 'httpx', 'openai'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
