import importlib.util
import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from kb_core.embedders import StaticEmbedder
from kb_core.embedders import static as module
from kb_core.errors import EmbedderUnavailableError

TEXTS = ["hello world", "the quick brown fox", "日本語 text", " leading blank", "退货期限为三十天。" * 100, "!!!"]


def test_vectors_are_those_of_wordllama_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # wordllama calls it when it is imported
    import wordllama

    theirs = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True, dim=256)
    np.testing.assert_allclose(StaticEmbedder().embed_documents(TEXTS), theirs.embed(TEXTS, norm=True), atol=1e-6)


def test_it_neither_imports_wordllama_nor_uses_the_network(
    no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)  # importing it would raise
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, find=importlib.machinery.PathFinder.find_spec: find(name)
    )
    assert StaticEmbedder().embed_query("hello").shape == (256,)
    assert no_network == []


def test_like_meaning_is_near_without_a_shared_word() -> None:
    embedder = StaticEmbedder()
    cat, dog, tax = embedder.embed_documents(["a cat", "two dogs", "the tax office"])
    assert cat @ dog > cat @ tax


def test_more_texts_than_a_batch_come_back_in_order() -> None:
    texts = [f"word {i}" for i in range(module._BATCH_SIZE + 10)]
    embedder = StaticEmbedder()
    np.testing.assert_array_equal(embedder.embed_documents(texts)[-1], embedder.embed_query(texts[-1]))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EmbedderUnavailableError, match="'wordllama', which is not installed; pip install wordllama"):
        StaticEmbedder().embed_query("hello")


def test_damaged_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = module._find_package()
    for file in (module._WEIGHTS, module._TOKENIZER):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_bytes((folder / file).read_bytes()[:1000])
    monkeypatch.setattr(module, "_find_package", lambda: tmp_path)
    with pytest.raises(EmbedderUnavailableError, match=r"cannot be read .* pip install --force-reinstall wordllama"):
        StaticEmbedder().embed_query("hello")


def test_a_model_of_another_release_is_refused() -> None:
    with pytest.raises(EmbedderUnavailableError, match="has the model 'l2_supercat_256', not 'l3'"):
        StaticEmbedder.from_config({"class": "StaticEmbedder", "model": "l3"})
