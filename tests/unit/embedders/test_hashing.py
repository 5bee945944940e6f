import os
import subprocess
import sys

import numpy as np
import pytest

from kb_core.embedders import HashingEmbedder


def test_vectors_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from kb_core.embedders import HashingEmbedder;"
        "print(HashingEmbedder(64).embed_query('Straße 日本語 x').tobytes().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1


def test_spelling_is_what_makes_texts_alike() -> None:
    embedder = HashingEmbedder()
    word, inflected, other = embedder.embed_documents(["configuration", "configurations", "elephant"])
    assert word @ inflected > 0.7
    assert abs(word @ other) < 0.2


def test_case_and_width_do_not_matter() -> None:
    vectors = HashingEmbedder().embed_documents(["STRASSE ABC", "straße ａｂｃ"])
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_scripts_without_spaces_share_characters_and_pairs() -> None:
    query, match, other = HashingEmbedder().embed_documents(["退货", "退货期限为三十天", "渡轮九点开船"])
    assert query @ match > 0.4
    assert abs(query @ other) < 0.2


def test_a_repeated_word_counts_by_its_logarithm() -> None:
    embedder = HashingEmbedder(1 << 20)
    row = embedder.embed_query("kettles kettles kettles teapots")
    once = embedder.embed_query("kettles"), embedder.embed_query("teapots")
    # At a million dimensions the two share none: the weights are 1 + ln 3 and 1, so their ratio is 2.0986.
    assert (row @ once[0]) / (row @ once[1]) == pytest.approx(1 + np.log(3), rel=1e-4)


def test_a_text_without_letters_gives_a_zero_row() -> None:
    assert not HashingEmbedder().embed_documents(["!?", "…"]).any()


@pytest.mark.parametrize("dimension", [0, 15, -1, 1.5, "512", True])
def test_dimensions_out_of_range_are_refused(dimension: object) -> None:
    with pytest.raises(ValueError, match="dimension must be an int of 16 or more, got"):
        HashingEmbedder(dimension)  # type: ignore[arg-type]
