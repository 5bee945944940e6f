from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kb_core.embedders import FastEmbedEmbedder, HashingEmbedder, StaticEmbedder, wrap_embedder
from kb_core.protocols import Embedder
from kb_core.testing.embedder import EmbedderSuite

MINILM = Path(__file__).parents[3] / "shared" / "models" / "all-MiniLM-L6-v2-int8"


class TestHashingEmbedder(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashingEmbedder()


class TestStaticEmbedder(EmbedderSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls) -> Embedder:
        return StaticEmbedder()


@pytest.mark.skipif(
    not MINILM.is_dir(), reason="the all-MiniLM-L6-v2 model is not in the neighbouring folder of shared files"
)
class TestFastEmbedEmbedder(EmbedderSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def embedder(cls) -> Embedder:
        return FastEmbedEmbedder(model_path=MINILM)


class TestFunctionAsEmbedder(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        def embed(texts: list[str]) -> Iterator[np.ndarray]:
            for text in texts:
                yield np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=256) ** 0.5

        return wrap_embedder(embed)
