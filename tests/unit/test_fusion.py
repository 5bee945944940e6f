import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_core.fusion import Fused, check_alpha, distribution_based, fuse, min_max, normalise, reciprocal_rank
from kb_core.protocols import Hit

METHODS = ["minmax", "rrf", "dbsf"]


def hits(**scores):
    return [Hit(id_, score) for id_, score in scores.items()]


def scores(results):
    return {result.id: pytest.approx(result.score) for result in results}


def ids(results):
    return [result.id for result in results]


# Golden numbers.


def test_min_max_by_hand():
    # vector: a (.9-.5)/.4 = 1, b (.7-.5)/.4 = .5, c 0;  keyword: b (6-2)/4 = 1, d (4-2)/4 = .5, c 0
    # a .7*1 = .7;  b .7*.5 + .3*1 = .65;  d .3*.5 = .15;  c 0
    results = min_max(hits(a=0.9, b=0.7, c=0.5), hits(b=6.0, d=4.0, c=2.0), 0.7)
    assert scores(results) == {"a": 0.7, "b": 0.65, "d": 0.15, "c": 0.0}
    assert ids(results) == ["a", "b", "d", "c"]
    assert results[1] == Fused("b", results[1].score, "fused", 0.7, 6.0)
    assert results[0].keyword_score is None
    assert results[2].vector_score is None


def test_reciprocal_rank_by_hand():
    # a 1/61;  b 1/62 + 1/61;  c 1/63 + 1/63;  d 1/62
    results = reciprocal_rank(hits(a=0.9, b=0.7, c=0.5), hits(b=6.0, d=4.0, c=2.0), 0.5)
    assert scores(results) == {"b": 1 / 61 + 1 / 62, "c": 2 / 63, "a": 1 / 61, "d": 1 / 62}
    assert ids(results) == ["b", "c", "a", "d"]


def test_reciprocal_rank_takes_weights_and_k():
    # alpha .75: vector weighs 1.5, keyword .5;  k = 1: ranks count 1/2, 1/3
    results = reciprocal_rank(hits(a=0.9, b=0.1), hits(b=6.0, a=1.0), 0.75, k=1)
    assert scores(results) == {"a": 1.5 / 2 + 0.5 / 3, "b": 1.5 / 3 + 0.5 / 2}
    with pytest.raises(ValueError, match="k must be above 0, got 0"):
        reciprocal_rank(hits(a=1.0), hits(a=1.0), 0.5, k=0)


def test_distribution_based_by_hand():
    # vector: mean .7, deviations .2 0 -.2, sigma = sqrt((.04 + .04) / 2) = .2, range .1 to 1.3:
    #   a .8/1.2 = 2/3, b .6/1.2 = 1/2, c .4/1.2 = 1/3
    # keyword: mean 4, sigma 2, range -2 to 10: b 8/12 = 2/3, d 1/2, c 1/3
    results = distribution_based(hits(a=0.9, b=0.7, c=0.5), hits(b=6.0, d=4.0, c=2.0), 0.5)
    assert scores(results) == {"b": (1 / 2 + 2 / 3) / 2, "a": 1 / 3, "c": 1 / 3, "d": 1 / 4}
    assert ids(results)[0] == "b"


def test_distribution_based_clips_what_lies_beyond_three_sigma():
    # 20 zeros and a 21: mean 1, sum of squares 20*1 + 400 = 420, sigma = sqrt(420/20) = 4.58; 21 > 1 + 3*4.58 = 14.7
    crowd = {f"x{number:02}": 0.0 for number in range(20)}
    results = distribution_based(hits(top=21.0, **crowd), hits(top=1.0, other=2.0), 1.0)
    assert results[0] == Fused("top", 1.0, "fused", 21.0, 1.0)


# One list is empty, or flat.


@pytest.mark.parametrize("method", METHODS)
def test_with_one_list_empty_the_other_comes_back_as_it_is(method):
    vector = fuse(method, hits(b=-0.2, a=0.4, c=0.4), [], 0.3)
    assert vector == [
        Fused("a", 0.4, "cosine", 0.4, None),
        Fused("c", 0.4, "cosine", 0.4, None),
        Fused("b", -0.2, "cosine", -0.2, None),
    ]
    keyword = fuse(method, [], hits(x=3.5, y=7.0, z=0.5), 0.3)
    assert keyword == [
        Fused("y", 7.0, "bm25", None, 7.0),
        Fused("x", 3.5, "bm25", None, 3.5),
        Fused("z", 0.5, "bm25", None, 0.5),
    ]
    assert fuse(method, [], [], 0.3) == []


@pytest.mark.parametrize(("method", "full"), [("minmax", 1.0), ("rrf", 2 / 61), ("dbsf", 1.0)])
def test_equal_scores_get_the_full_share_and_the_only_hit_does_too(method, full):
    assert scores(fuse(method, hits(a=0.42), hits(a=0.42), 0.7)) == {"a": full}
    same = fuse(method, hits(a=0.42, b=0.42, c=0.42), hits(d=1.5), 0.7)
    assert scores(same) == {"a": 0.7 * full, "b": 0.7 * full, "c": 0.7 * full, "d": 0.3 * full}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cosine", [0.0, -0.3])
def test_a_vector_that_matches_nothing_adds_nothing(method, cosine):
    results = fuse(method, hits(a=cosine, b=cosine), hits(b=2.0, c=1.0), 0.7)
    assert ids(results)[0] == "b"
    assert {result.id: result.score for result in results}["a"] == 0.0
    assert {result.id: result.vector_score for result in results} == {"a": cosine, "b": cosine, "c": None}


def test_a_raw_score_of_zero_is_a_score():
    # vector: a (0 - -.1)/.1 = 1, b 0;  keyword flat: both 1
    results = min_max(hits(a=0.0, b=-0.1), hits(a=1.0, b=1.0), 0.5)
    assert results == [Fused("a", 1.0, "fused", 0.0, 1.0), Fused("b", 0.5, "fused", -0.1, 1.0)]


# Ties and order.


def test_equal_keyword_scores_do_not_outvote_the_vector_list():
    vector = hits(pie=0.9, green=0.8, red=0.7)
    keyword = hits(red=1.3, green=1.3, pie=1.3)
    for method in METHODS:
        results = fuse(method, vector, keyword, 0.1)
        assert ids(results) == ["pie", "green", "red"]


def test_equal_raw_scores_share_a_rank():
    # keyword ranks 1, 2, 2, 4; the vector list is far away
    results = reciprocal_rank(hits(z=1.0), hits(a=9.0, b=5.0, c=5.0, d=1.0), 0.5)
    assert scores(results) == {"a": 1 / 61, "z": 1 / 61, "b": 1 / 62, "c": 1 / 62, "d": 1 / 64}
    assert ids(results) == ["a", "z", "b", "c", "d"]


def test_order_does_not_depend_on_the_hash_seed():
    program = (
        "from kb_core.fusion import fuse; from kb_core.protocols import Hit\n"
        "v = [Hit(f'v{rank}', 3 - rank) for rank in range(3)]\n"
        "k = [Hit(f'k{rank}', 9 - rank) for rank in range(3)]\n"
        "print([[r.id for r in fuse(m, v, k, .5)] for m in ('minmax', 'rrf', 'dbsf')])"
    )
    printed = set()
    for seed in ("0", "1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert json.loads(printed.pop().decode().replace("'", '"'))[0] == ["k0", "v0", "k1", "v1", "k2", "v2"]


def test_an_id_given_twice_counts_once_with_its_best_score():
    once = min_max(hits(a=0.95, b=0.2), hits(b=1.0, c=2.0), 0.5)
    twice = [Hit("a", 0.2), Hit("b", 0.2), Hit("a", 0.95), Hit("a", 0.5)]
    assert min_max(twice, hits(b=1.0, c=2.0), 0.5) == once


def test_alpha_one_is_the_vector_order_and_alpha_zero_the_keyword_order():
    vector, keyword = hits(a=0.9, b=0.5, c=0.7), hits(c=3.0, b=2.0, a=1.0)
    for method in METHODS:
        assert ids(fuse(method, vector, keyword, 1.0)) == ["a", "c", "b"]
        assert ids(fuse(method, vector, keyword, 0.0)) == ["c", "b", "a"]


# Arguments.


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf, 10**400])
def test_alpha_out_of_range_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be from 0 to 1, got"):
        fuse("minmax", hits(a=1.0), hits(a=1.0), alpha)


@pytest.mark.parametrize("alpha", ["0.5", None, True, 1j])
def test_alpha_that_is_no_number_is_refused_also_with_nothing_to_fuse(alpha):
    with pytest.raises(TypeError, match="alpha must be a number from 0 to 1, got"):
        fuse("rrf", [], [], alpha)


def test_alpha_may_be_any_real_number():
    assert [check_alpha(alpha) for alpha in (0, 1, 0.5, np.float32(0.5), Fraction(1, 2))] == [0.0, 1.0, 0.5, 0.5, 0.5]
    assert type(check_alpha(np.float64(0.5))) is float


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="fusion must be one of minmax, rrf, dbsf, got 'RRF'"):
        fuse("RRF", [], [], 0.5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_refused(method, score):
    with pytest.raises(ValueError, match="the score of chunk 'b' must be finite"):
        fuse(method, hits(a=0.5, b=score), hits(a=1.0), 0.5)


def test_scores_come_out_as_plain_floats():
    vector = [Hit("a", np.float32(0.5)), Hit("b", np.float32(-0.0))]
    for keyword in ([], [Hit("a", np.float64(2.0))]):
        for result in fuse("minmax", vector, keyword, np.float32(0.7)):
            for score in (result.score, result.vector_score, result.keyword_score):
                assert score is None or type(score) is float
            assert math.copysign(1, result.score) == 1


# Laws.

LISTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, 5e-324])), max_size=8
).map(lambda found: [Hit(id_, score) for id_, score in found.items()])
ALPHAS = st.floats(0, 1)


@given(st.sampled_from(METHODS), LISTS, LISTS, ALPHAS)
def test_what_holds_for_every_method(method, vector, keyword, alpha):
    results = fuse(method, vector, keyword, alpha)
    assert {result.id for result in results} == {hit.id for hit in (*vector, *keyword)}
    assert ids(results) == [result.id for result in sorted(results, key=lambda result: (-result.score, result.id))]
    if vector and keyword:
        assert all(0 <= result.score <= 1 and result.score_type == "fused" for result in results)
    assert fuse(method, vector[::-1], sorted(keyword), alpha) == results


@given(st.sampled_from(METHODS), LISTS, LISTS)
def test_the_lists_can_be_swapped(method, vector, keyword):
    straight, swapped = fuse(method, vector, keyword, 0.5), fuse(method, keyword, vector, 0.5)
    assert [(result.id, result.score) for result in straight] == [(result.id, result.score) for result in swapped]


@given(st.sampled_from(METHODS), LISTS, LISTS, ALPHAS)
def test_a_hit_that_is_better_in_one_list_and_alone_there_is_never_ranked_lower(method, vector, keyword, alpha):
    only = {hit.id for hit in vector} - {hit.id for hit in keyword}
    score_of = {result.id: result.score for result in fuse(method, vector, keyword, alpha)}
    ordered = sorted((hit for hit in vector if hit.id in only), key=lambda hit: hit.score)
    for worse, better in pairwise(ordered):
        assert score_of[better.id] >= score_of[worse.id]


@given(st.sampled_from(METHODS), LISTS.filter(bool), LISTS.filter(bool), ALPHAS)
def test_a_fused_score_is_the_weighted_sum_of_the_normalised_ones(method, vector, keyword, alpha):
    v, k = (normalise(method, dict(found)) for found in (vector, keyword))
    for result in fuse(method, vector, keyword, alpha):
        assert result.score == alpha * v.get(result.id, 0.0) + (1 - alpha) * k.get(result.id, 0.0)
