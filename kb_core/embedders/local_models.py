"""A directory with an ONNX embedding model: which file to run, how to pool, how many dimensions."""

import hashlib
import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb_core.embedders.prompts import Prompts, prompts_in, prompts_of
from kb_core.errors import EmbedderUnavailableError

POOLINGS = ("mean", "cls", "last_token")

# In the order in which they are taken; "" is the directory itself. Optimum and the hub write onnx/, fastembed the rest.
_ONNX_FILES = ("model.onnx", "model_optimized.onnx", "model_quantized.onnx", "model_int8.onnx")
_ONNX_FOLDERS = ("", "onnx/")

# Families that put the sentence into the first token, by their model cards; for exports without 1_Pooling/config.json.
_CLS_FAMILIES = re.compile(r"bge-|mxbai-embed|arctic-embed|gte-.*-v1\.5")
_LAST_TOKEN_FAMILIES = re.compile(r"qwen3-embedding")

_SAMPLE_BYTES = 1 << 16
_N_SAMPLES = 16


@dataclass(frozen=True)
class LocalModel:
    """What was found in a model directory, without loading the model.

    Attributes:
        directory: Absolute.
        onnx_file: Relative to `directory`.
        pooling: One of `POOLINGS`; not used where the model pools by itself.
        dimension: Of its vectors, by its config files; None where they do not say.
        prompts: See `kb_core.embedders.prompts`.
        content_id: Names the weights and the tokenizer, wherever the directory lies: 16 hex digits.
    """

    directory: Path
    onnx_file: str
    pooling: str
    dimension: int | None
    prompts: Prompts
    content_id: str


def inspect_directory(model_path: str | Path, *, name: str | None = None, pooling: str | None = None) -> LocalModel:
    """Find out how to run the model in a directory. Reads config files and about 2 MB of the weights.

    Args:
        model_path: The directory; must hold an ONNX file, in it or in `onnx/`, and `tokenizer.json`.
        name: The name of the model, where prompts and pooling go by its family; None: the name of the directory.
        pooling: Overrides what was found, one of `POOLINGS`.

    Raises:
        EmbedderUnavailableError: There is no such directory, or no model in it.
        ValueError: Several ONNX files of unknown names, or an unknown pooling.
    """
    directory = Path(model_path).expanduser().absolute()
    if not directory.is_dir():
        raise EmbedderUnavailableError(f"model_path must be a directory with an ONNX model, got {str(model_path)!r}")
    if pooling is not None and pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
    onnx_file = _find_onnx_file(directory)
    family = (name or directory.name).lower()
    return LocalModel(
        directory=directory,
        onnx_file=onnx_file,
        pooling=pooling or _find_pooling(directory, family),
        dimension=_find_dimension(directory),
        prompts=prompts_in(directory) or prompts_of(family),
        content_id=_content_id(directory / onnx_file, directory / "tokenizer.json"),
    )


def _find_onnx_file(directory: Path) -> str:
    candidates = [folder + file for folder in _ONNX_FOLDERS for file in _ONNX_FILES]
    for candidate in candidates:
        if (directory / candidate).is_file():
            return candidate
    others = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*.onnx") if p.is_file())
    if not others:
        raise EmbedderUnavailableError(
            f"model_path {str(directory)!r} holds no ONNX model; looked for {', '.join(candidates)}"
        )
    if len(others) > 1:
        raise ValueError(f"model_path {str(directory)!r} holds {', '.join(others)}; name the right one model.onnx")
    return others[0]


def _find_pooling(directory: Path, family: str) -> str:
    """See `1_Pooling/config.json` of sentence-transformers; else by family; mean is the rule elsewhere."""
    config = _read_json(directory / "1_Pooling" / "config.json")
    if config.get("pooling_mode_cls_token"):
        return "cls"
    if config.get("pooling_mode_lasttoken"):
        return "last_token"
    if config.get("pooling_mode_mean_tokens"):
        return "mean"
    if _CLS_FAMILIES.search(family):
        return "cls"
    return "last_token" if _LAST_TOKEN_FAMILIES.search(family) else "mean"


def _find_dimension(directory: Path) -> int | None:
    """See the Dense and Pooling modules of sentence-transformers, then the width that transformers noted."""
    for file, keys in (
        ("2_Dense/config.json", ("out_features",)),
        ("1_Pooling/config.json", ("word_embedding_dimension",)),
        ("config.json", ("hidden_size", "dim", "d_model")),
    ):
        config = _read_json(directory / file)
        for key in keys:
            if isinstance(config.get(key), int) and config[key] > 0:
                return int(config[key])
    return None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _content_id(weights: Path, tokenizer: Path) -> str:
    """Hash samples spread over the weights, and the tokenizer.

    The path would be no name: a directory may move, and another model may come to lie where one was. Two trainings of
    one architecture differ all over, so samples tell them apart without reading gigabytes at every start.
    """
    digest = hashlib.blake2b(digest_size=8)
    size = weights.stat().st_size
    digest.update(str(size).encode())
    with weights.open("rb") as file:
        for sample in range(_N_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * sample // (_N_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    if tokenizer.is_file():
        digest.update(tokenizer.read_bytes())
    return digest.hexdigest()


_registration = threading.Lock()


def load_local_model(model: LocalModel, *, threads: int | None) -> Any:
    """Load a model from its directory, whose files are never touched.

    Returns:
        A `fastembed.TextEmbedding`.

    Raises:
        EmbedderUnavailableError: The files are damaged or not those of an embedding model.
    """
    try:
        embedding = _open(model, model.pooling, threads)
        # An export that pools by itself gives (n, d); fastembed would take a column of it for the first token.
        if len(embedding.model.model.get_outputs()[0].shape) == 2:
            embedding = _open(model, "disabled", threads)
    except Exception as error:
        raise EmbedderUnavailableError(
            f"the model in {str(model.directory)!r} cannot be loaded ({type(error).__name__}: {error}); "
            "its files were left as they are"
        ) from error
    return embedding


def _open(model: LocalModel, pooling: str, threads: int | None) -> Any:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    # The registry is one for the process and takes a name once, so the name says all that the entry depends on.
    name = f"kb-core/{model.content_id}-{pooling}-{model.onnx_file.replace('/', '-')}"
    with _registration:
        if all(row["model"] != name for row in TextEmbedding.list_supported_models()):
            TextEmbedding.add_custom_model(
                model=name,
                pooling=PoolingType(pooling.upper()),
                normalization=False,
                sources=ModelSource(hf="local/model"),  # demanded, and never asked: the path goes first
                dim=model.dimension or 0,
                model_file=model.onnx_file,
            )
    return TextEmbedding(name, specific_model_path=str(model.directory), threads=threads)
