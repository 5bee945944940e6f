"""Real models of a few kilobytes, a cache as the hub client lays it out, and a network that must not be used."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kb_core.embedders import hub

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "blue", "green", "fish", "bird", "query", "passage", ":"]
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _hub_not_asked_before() -> Iterator[None]:
    hub._failures.clear()
    yield
    hub._failures.clear()


@pytest.fixture
def hub_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back the switch that keeps all other tests from a model hub."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Refuse and note every look-up and every connection."""
    used: list[object] = []

    def refuse(*args: object, **_: object) -> None:
        used.append(args)
        raise OSError("the network was used")

    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return used


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """Write an ONNX model whose token vectors are one-hot: token i of `VOCABULARY` has a 1 at dimension i."""

    def make(
        name: str = "tiny",
        *,
        file: str = "model.onnx",
        dimension: int = len(VOCABULARY),
        limit: int = 16,
        pooled: bool = False,
    ) -> Path:
        directory = tmp_path / name
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        _write_onnx(directory / file, dimension, pooled=pooled)
        _write_tokenizer(directory, limit)
        (directory / "config.json").write_text(json.dumps({"hidden_size": dimension, "pad_token_id": 0}))
        return directory

    return make


def _write_onnx(path: Path, dimension: int, *, pooled: bool) -> None:
    from onnx import TensorProto, checker, helper, numpy_helper, save

    table = numpy_helper.from_array(np.eye(len(VOCABULARY), dimension, dtype=np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    shape: list[str | int] = ["n", "t", dimension]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["tokens"], ["sentence"], axes=[1], keepdims=0))
        shape = ["n", dimension]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("sentence" if pooled else "tokens", TensorProto.FLOAT, shape)],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(model)
    save(model, str(path))


def _write_tokenizer(directory: Path, limit: int) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token=VOCABULARY[1])
    tokenizer = Tokenizer(words)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit, "pad_token": "[PAD]"}))


@pytest.fixture
def cached_model(make_model: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path]:
    """Put a tiny model of 384 dimensions where the default model lies once downloaded: its cache, its ONNX file."""
    folder = tmp_path / "cache" / "models--Qdrant--bge-small-en-v1.5-onnx-Q"
    snapshot = folder / "snapshots" / REVISION
    snapshot.parent.mkdir(parents=True)
    shutil.copytree(make_model("bge", file="model_optimized.onnx", dimension=384), snapshot)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(REVISION)
    return tmp_path / "cache", snapshot / "model_optimized.onnx"
