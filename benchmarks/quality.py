"""Retrieval quality on judged sets: nDCG@10 of each matcher alone and of both fused, with default settings."""

import argparse
from pathlib import Path

from benchmarks import beir
from kb_core import LocalKB
from kb_core.embedders import FastEmbedEmbedder, HashingEmbedder, StaticEmbedder

DEPTH = 1000
"""Chunks asked for, of which the ten best documents are made: the depth that BEIR retrieves to."""


def evaluate(
    judged: beir.JudgedSet, embedder: object, *, depth: int = DEPTH, alpha: float | None = None
) -> dict[str, float]:
    """Measure nDCG@10 by search type, documents scored by their best chunk."""
    with LocalKB("quality", persist=False, embedder=embedder, alpha=alpha) as kb:
        kb.add_documents(judged.documents)
        return {
            search_type: sum(
                beir.ndcg(
                    beir.best_documents(kb.search(query, depth, search_type=search_type), 10),
                    judged.gains[query_id],
                )
                for query_id, query in judged.queries.items()
            )
            / len(judged.queries)
            for search_type in ("vector", "keyword", "hybrid")
        }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of sets in the BEIR layout")
    parser.add_argument("--model", type=Path, help="a local ONNX model for FastEmbed")
    parser.add_argument("--sets", nargs="*", help="which of them; all")
    parser.add_argument("--alpha", type=float, help="in place of the embedder's own")
    parser.add_argument("--depth", type=int, default=DEPTH, help="chunks asked for; %(default)s")
    parser.add_argument("--embedders", nargs="*", help="which of fastembed, static, hashing; all")
    options = parser.parse_args(arguments)
    embedders: dict[str, object] = {"static": StaticEmbedder(), "hashing": HashingEmbedder()}
    if options.model:
        embedders = {"fastembed": FastEmbedEmbedder(model_path=options.model), **embedders}
    embedders = {name: embedders[name] for name in options.embedders or embedders}
    sets = options.sets or sorted(folder.name for folder in options.data.iterdir() if folder.is_dir())
    print(f"{'set':<10} {'embedder':<10} {'vector':>7} {'keyword':>8} {'hybrid':>7}")
    for name in sets:
        judged = beir.load(options.data / name)
        for label, embedder in embedders.items():
            scores = evaluate(judged, embedder, depth=options.depth, alpha=options.alpha)
            print(
                f"{name:<10} {label:<10} {scores['vector']:7.3f} {scores['keyword']:8.3f} {scores['hybrid']:7.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
