import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kb_core.embedders.vectors import DistinctTexts, check_texts, check_vectors


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 8)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_any_finite_row_comes_out_with_length_one_or_zero(rows: np.ndarray) -> None:
    unit = check_vectors(rows, len(rows), provider="X")
    assert unit.dtype == np.float32
    lengths = np.linalg.norm(unit.astype(np.float64), axis=1)
    zero = ~rows.any(axis=1)
    np.testing.assert_allclose(lengths, np.where(zero, 0, 1), atol=1e-6)
    assert np.all(np.sign(unit) * np.sign(rows) >= 0)


@given(st.lists(st.sampled_from(["a", "b", "", " ", "c"])))
def test_every_text_gets_the_vector_of_its_own_words(texts: list[str]) -> None:
    distinct = DistinctTexts(texts)
    assert len(set(distinct.texts)) == len(distinct.texts)
    vectors = np.array([[float(ord(text)), 1.0] for text in distinct.texts], np.float32).reshape(-1, 2)
    spread = distinct.spread(vectors, lambda: 2)
    assert [row[0] for row in spread] == [ord(text) if text.strip() else 0 for text in texts]


def test_where_it_happened_is_told() -> None:
    with pytest.raises(Exception, match=r"^X returned 3 vectors for 4 texts \(batch 2\); nothing of it was kept$"):
        check_vectors(np.ones((3, 2)), 4, provider="X", where="batch 2")


def test_every_row_that_is_no_text_is_named() -> None:
    with pytest.raises(TypeError, match=r"texts\[0\] is NoneType, texts\[2\] is int; nothing was embedded"):
        check_texts([None, "x", 3])
    with pytest.raises(TypeError, match=r"texts\[4\] is int and 95 more"):
        check_texts(list(range(100)))


def test_half_surrogate_pairs_become_replacement_characters_and_whole_ones_stay() -> None:
    assert check_texts(["a\ud83dz", "\ud83d\ude00", "😀"]) == ["a\ufffdz", "😀", "😀"]
