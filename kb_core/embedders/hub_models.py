"""fastembed's models: finding one by name, loading it from the cache, fetching it, throwing a damaged one away."""

import contextlib
import difflib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb_core.embedders.hub import why_unreachable
from kb_core.errors import EmbedderUnavailableError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HubModel:
    """A row of fastembed's registry.

    Attributes:
        name: As fastembed spells it.
        dimension: Of its vectors.
        source: Its repository on the hub, "" where it comes from elsewhere.
        files: What it needs beside the tokenizer.
    """

    name: str
    dimension: int
    source: str
    files: tuple[str, ...] = ()


DEFAULT_MODEL = HubModel("BAAI/bge-small-en-v1.5", 384, "Qdrant/bge-small-en-v1.5-onnx-Q")
"""Known without the second that importing fastembed takes."""


def find_model(name: str) -> HubModel:
    """Look a model up by name, in any case; imports fastembed.

    Raises:
        ValueError: fastembed has no such model; names the most alike ones.
    """
    from fastembed import TextEmbedding

    rows: dict[str, dict[str, Any]] = {row["model"].lower(): row for row in TextEmbedding.list_supported_models()}
    row = rows.get(name.lower())
    if row is None:
        alike = difflib.get_close_matches(name.lower(), rows, n=3, cutoff=0.5)
        hint = f"; did you mean {', '.join(rows[key]['model'] for key in alike)}?" if alike else ""
        raise ValueError(
            f"model must be one of fastembed's text models or, as model_path=, a directory; got {name!r}{hint}"
        )
    files = (row["model_file"], *(row.get("additional_files") or ()))
    return HubModel(row["model"], int(row["dim"]), (row.get("sources") or {}).get("hf") or "", files)


def cache_folders(model: HubModel, cache_dir: str | None) -> list[Path]:
    """Find the folders of the cache that belong to a model; older fastembed releases spelt the repository otherwise."""
    name = f"models--{model.source.replace('/', '--')}".lower()
    try:
        return sorted(entry for entry in _cache(cache_dir).iterdir() if entry.name.lower() == name and entry.is_dir())
    except OSError:
        return []


def _cache(cache_dir: str | None) -> Path:
    """Give fastembed's cache, without creating it."""
    return Path(cache_dir or os.environ.get("FASTEMBED_CACHE_PATH") or Path(tempfile.gettempdir()) / "fastembed_cache")


def load_hub_model(model: HubModel, *, cache_dir: str | None, threads: int | None) -> Any:
    """Load a model from the cache, else from the hub.

    A cached model whose files are damaged, by an interrupted download say, is removed and fetched again, once.

    Returns:
        A `fastembed.TextEmbedding`.

    Raises:
        EmbedderUnavailableError: It is not cached, and the hub cannot be reached within seconds or does not deliver.
    """
    damage = "it is not cached and "
    if cache_folders(model, cache_dir):
        try:
            return _load_cached(model, cache_dir, threads)
        except FileNotFoundError as error:
            logger.info("The cache holds %s in part: %s", model.name, error)
        except Exception as error:
            if not is_damage(error):
                raise EmbedderUnavailableError(f"{model.name} cannot be loaded: {error}") from error
            logger.warning("The cached files of %s are damaged and will be removed: %s", model.name, error)
            _discard(model, cache_dir)
            damage = f"its cached files were damaged ({type(error).__name__}) and have been removed, and "
    reason = why_unreachable(model.source) if model.source else None
    if reason is not None:
        raise EmbedderUnavailableError(
            f"embedding model {model.name} is not available: {damage}{reason}; "
            "connect once so that it can be downloaded, or give a local copy as model_path="
        )
    try:
        return _fetch(model, cache_dir, threads)
    except Exception as error:
        if is_damage(error):
            _discard(model, cache_dir)
        raise EmbedderUnavailableError(
            f"embedding model {model.name} could not be fetched: {type(error).__name__}: {error}"
        ) from error


def _load_cached(model: HubModel, cache_dir: str | None, threads: int | None) -> Any:
    """Load from the cache alone; a file that is not there raises `FileNotFoundError`."""
    from fastembed import TextEmbedding

    # Not by TextEmbedding(local_files_only=True): that takes a file of the wrong size for one that is not there.
    files = find_model(model.name).files
    directory = Path(_snapshot(model, cache_dir, local_files_only=True))
    missing = [file for file in files if not (directory / file).exists()]
    if missing:
        raise FileNotFoundError(f"{directory} lacks {', '.join(missing)}")
    return TextEmbedding(model.name, cache_dir=cache_dir, threads=threads, specific_model_path=str(directory))


def _fetch(model: HubModel, cache_dir: str | None, threads: int | None) -> Any:
    """Download without fastembed's own three rounds of 3, 9 and 27 s, then load."""
    from fastembed import TextEmbedding

    logger.info("Downloading embedding model %s", model.name)
    if not model.source:  # a custom model, registered with an address of its own
        return TextEmbedding(model.name, cache_dir=cache_dir, threads=threads)
    _snapshot(model, cache_dir, local_files_only=False)
    return _load_cached(model, cache_dir, threads)


def _snapshot(model: HubModel, cache_dir: str | None, *, local_files_only: bool) -> str:
    """Find, or download, the files of a model: their directory. Sizes are checked against those of the download."""
    from fastembed import TextEmbedding
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars

    were_disabled = are_progress_bars_disabled()
    try:
        found: str = TextEmbedding.download_files_from_huggingface(
            model.source,
            cache_dir=str(_cache(cache_dir)),
            extra_patterns=list(find_model(model.name).files),
            local_files_only=local_files_only,
        )
    finally:
        if not were_disabled:  # fastembed switches them off for the whole process
            enable_progress_bars()
    return found


def is_damage(error: Exception) -> bool:
    """Tell broken model files from any other reason why a model does not load.

    Only what a cut-off or garbled file causes counts: out of memory, an ONNX version that this runtime does not know or
    a missing execution provider are no ground for deleting anything.
    """
    kind = type(error).__name__
    if kind in {"InvalidProtobuf", "NoSuchFile", "CorruptedCacheError", "SafetensorError"}:
        return True
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return True
    if kind == "InvalidArgument":
        return "No graph was found" in str(error)  # onnxruntime's word for an empty file
    # The tokenizers package raises a bare Exception for a file that is no tokenizer.
    return type(error) is Exception or str(error).startswith("Could not find tokenizer")


def _discard(model: HubModel, cache_dir: str | None) -> None:
    """Remove what the cache holds of one model, shared files only where no other model uses them."""
    from huggingface_hub import CacheNotFound, scan_cache_dir

    for folder in cache_folders(model, cache_dir):
        with contextlib.suppress(CacheNotFound, OSError, ValueError):
            cache = scan_cache_dir(folder.parent)
            revisions = [
                revision.commit_hash
                for repository in cache.repos
                if repository.repo_path.name == folder.name
                for revision in repository.revisions
            ]
            cache.delete_revisions(*revisions).execute()
        shutil.rmtree(folder, ignore_errors=True)
