"""A folder of documents goes in, the right passages come out. No key, no download, no server.

Run it: python examples/quickstart.py
"""

from pathlib import Path

from kb_core import LocalKB
from kb_core.embedders import StaticEmbedder

CORPUS = Path(__file__).parent / "corpus"  # what a small shop has lying around: Markdown, CSV, JSON, HTML, text, code
QUESTIONS = [
    "how long do I have to send something back?",
    "my tent got wet, how do I stop it from going mouldy?",
    "when is the shop in Hamburg open?",
    "how much paid leave is there?",
    "what happens when the API answers 429?",
]


def main() -> None:
    # The embedder's word vectors come with the package, so that this prints the same on every machine; left out, the
    # best one that works here is chosen. Without persist=False all is kept in .kb/shop/ and there at the next start.
    with LocalKB("shop", embedder=StaticEmbedder(), chunk_size=256, chunk_overlap=0, persist=False) as kb:
        report = kb.add(CORPUS)
        print(f"{report.added} documents, {report.chunks} chunks")

        for question in QUESTIONS:
            best = kb.search(question, top_k=1)[0]
            print(f"\n{question}\n{Path(best.chunk.metadata['source']).name}: {' '.join(best.chunk.content.split())}")

        # A filter over metadata is exact. The fields of the records in products.json are metadata.
        print("\ntents up to 400 euros:")
        for result in kb.search("a tent for snow", where={"category": "tents", "price_eur": {"$lte": 400}}):
            print(f"{result.chunk.metadata['title']}, {result.chunk.metadata['price_eur']} euros")

        # What an agent gets: a name, a description, a JSON schema, and a call that answers with text.
        tool = kb.as_tool()
        print(f"\n{tool.name}:\n{tool.call('how warm is the down sleeping bag?', top_k=1)}")


if __name__ == "__main__":
    main()
