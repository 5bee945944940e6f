"""Time `Chunker` beside LangChain's `RecursiveCharacterTextSplitter` on the same texts, in turns.

    python -m benchmarks.chunking [--data docs.jsonl.gz] [--rounds 3]

The data file holds one JSON string a line (plain or gzip). Without one, a corpus is generated. Each set of texts is cut
as it is and joined by blank lines into documents of twenty. The best of the rounds counts.
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kb_core.chunking import Chunker

SETTINGS = ((512, 50), (256, 25), (128, 12))
LINES_PER_DOCUMENT = 20


def read(path: Path) -> list[str]:
    """Read one JSON string a line."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def generate(n_texts: int, seed: int = 0) -> list[str]:
    """Make texts of up to 512 characters: words of a skewed vocabulary in sentences, lines and paragraphs."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(rng.choices(letters, range(26, 0, -1), k=rng.randint(1, 11))) for _ in range(4000)]
    ends = [" "] * 12 + [", "] * 2 + [". "] * 2 + ["\n", "\n\n"]
    texts = []
    for _ in range(n_texts):
        n_words = rng.randint(20, 80)
        parts = zip(rng.choices(words, k=n_words), rng.choices(ends, k=n_words), strict=True)
        texts.append("".join(word + end for word, end in parts)[:512])
    return texts


def join(texts: Sequence[str], n: int = LINES_PER_DOCUMENT) -> list[str]:
    """Join every n texts by blank lines."""
    return ["\n\n".join(texts[at : at + n]) for at in range(0, len(texts), n)]


def best_of(rounds: int, *runs: Callable[[], int]) -> list[tuple[float, int]]:
    """Run the functions in turns. Returns seconds (the best) and chunks for each."""
    best = [(float("inf"), 0)] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            started = time.perf_counter()
            n_chunks = run()
            best[index] = min(best[index], (time.perf_counter() - started, n_chunks))
    return best


def compare(label: str, texts: Sequence[str], size: int, overlap: int, rounds: int) -> None:
    """Print one row: both times for finished texts of chunks, and their ratio."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    chunker = Chunker(chunk_size=size, chunk_overlap=overlap)
    peer = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap)

    def ours() -> int:
        return sum(len([text[start:end] for start, end in chunker.split(text)]) for text in texts)

    def theirs() -> int:
        return sum(len(peer.split_text(text)) for text in texts)

    (own_s, own_n), (peer_s, peer_n) = best_of(rounds, ours, theirs)
    print(f"{label:<10}{size:>5}{overlap:>5}{own_s:>9.2f}{own_n:>9}{peer_s:>11.2f}{peer_n:>9}{peer_s / own_s:>8.1f}x")


def main() -> None:
    """Read the arguments, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="one JSON string a line, .jsonl or .jsonl.gz")
    parser.add_argument("--limit", type=int, help="use only so many texts")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    texts = (read(args.data) if args.data else generate(20_000))[: args.limit]
    print(f"{len(texts)} texts, {sum(map(len, texts)) / 1e6:.1f} M characters; best of {args.rounds}")
    print(
        f"{'texts':<10}{'size':>5}{'lap':>5}{'kb_core s':>9}{'chunks':>9}{'LangChain s':>11}{'chunks':>9}{'faster':>9}"
    )
    for label, documents in (("as given", texts), (f"by {LINES_PER_DOCUMENT}", join(texts))):
        for size, overlap in SETTINGS:
            compare(label, documents, size, overlap, args.rounds)


if __name__ == "__main__":
    main()
