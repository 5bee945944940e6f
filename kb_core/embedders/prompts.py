"""The prefixes that embedding models were trained with; fastembed leaves adding them to its caller."""

import json
import re
from pathlib import Path
from typing import NamedTuple


class Prompts(NamedTuple):
    """What is put in front of a query and of a passage; often nothing."""

    query: str = ""
    passage: str = ""


_BGE_EN = Prompts(query="Represent this sentence for searching relevant passages: ")
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query"

# Each from the model card of the family on the Hugging Face hub (sections "Usage", "Prompts", "FAQ"), matched against
# the lower-case model name. First match wins.
_FAMILIES: tuple[tuple[str, Prompts], ...] = (
    (r"bge-(small|base|large)-en", _BGE_EN),  # BAAI/bge-small-en-v1.5
    (r"bge-(small|base|large)-zh", Prompts(query="为这个句子生成表示以用于检索相关文章：")),  # BAAI/bge-small-zh-v1.5
    (r"mxbai-embed-(large|2d-large|xsmall)", _BGE_EN),  # mixedbread-ai/mxbai-embed-large-v1
    (r"snowflake-arctic-embed-(xs|s|m|l|m-long)$", _BGE_EN),  # Snowflake/snowflake-arctic-embed-m
    (
        r"multilingual-e5-.*instruct",
        Prompts(query=f"{_WEB_SEARCH}\nQuery: "),
    ),  # intfloat/multilingual-e5-large-instruct
    (r"(^|[/_-])e5-(small|base|large)", Prompts("query: ", "passage: ")),  # intfloat/multilingual-e5-large
    (r"nomic-embed-text-v1", Prompts("search_query: ", "search_document: ")),  # nomic-ai/nomic-embed-text-v1.5
    (r"embeddinggemma", Prompts("task: search result | query: ", "title: none | text: ")),  # google/embeddinggemma-300m
    (r"qwen3-embedding", Prompts(query=f"{_WEB_SEARCH}\nQuery:")),  # Qwen/Qwen3-Embedding-0.6B
    (r"stella[-_]en[-_]400m", Prompts(query=f"{_WEB_SEARCH}.\nQuery: ")),  # NovaSearch/stella_en_400M_v5, "s2p_query"
)


def prompts_of(model: str) -> Prompts:
    """Look up the prefixes of a model by its name; none for a model of no known family."""
    name = model.lower()
    return next((prompts for pattern, prompts in _FAMILIES if re.search(pattern, name)), Prompts())


def prompts_in(directory: Path) -> Prompts | None:
    """Read the prefixes that sentence-transformers stored beside a model, None where it stored none.

    See "Prompt Templates" in its documentation: `config_sentence_transformers.json`, key `prompts`.
    """
    try:
        stored = json.loads((directory / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        prompts = stored.get("prompts") or {}
        query = prompts.get("query", "")
        passage = next((prompts[key] for key in ("document", "passage") if key in prompts), "")
    except (OSError, ValueError, AttributeError):
        return None
    found = Prompts(query=str(query or ""), passage=str(passage or ""))
    return found if any(found) else None
