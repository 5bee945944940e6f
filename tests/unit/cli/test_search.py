"""`kb search`."""

import re

import pytest

from kb_core import LocalKB
from kb_core.formatting import format_results


def test_a_pipe_gets_exactly_the_format_that_models_read(kb, filled, home):
    printed = kb("search", "how many days", "-k", "2").stdout
    with LocalKB("default", path=home / ".kb") as library:
        assert printed == format_results(library.search("how many days", 2)) + "\n"
    assert re.match(r"\[Score: \d\.\d{3}\] ", printed)


def test_several_words_need_no_quotes(kb, filled):
    assert kb("search", "parcels", "to", "norway").stdout == kb("search", "parcels to norway").stdout


def test_no_hit_is_no_failure(kb, filled):
    assert kb("search", "zebra", "--mode", "keyword").stdout == "No results found.\n"
    assert kb("search", "zebra", "--mode", "keyword", "--json").stdout == "[]\n"
    assert kb("search", "").stdout == "No results found.\n"
    assert kb("search", "days", "-k", "0").stdout == "No results found.\n"


def test_the_options_are_those_of_the_library(answer, filled, kb, home):
    kb("add", "--text", "Items to Norway", "--source", "x", "--metadata", "year=2026")
    hits = answer("search", "items", "--where", '{"year": {"$gte": 2026}}')
    assert [hit["source"] for hit in hits] == ["x"]
    assert [hit["score_type"] for hit in answer("search", "items", "--mode", "vector", "-k", "1")] == ["cosine"]
    assert answer("search", "items", "--mode", "keyword", "--min-score", "1e6") == []
    with LocalKB("default", path=home / ".kb") as library:
        expected = [result.score for result in library.search("norway parcels", alpha=0.2)]
    assert [hit["score"] for hit in answer("search", "norway parcels", "--alpha", "0.2")] == expected


def test_json_scores_are_plain_numbers_and_dates_are_text(answer, home):
    from datetime import date

    with LocalKB("default", path=home / ".kb", embedder=lambda texts: [[1.0, 0.0]] * len(texts)) as library:
        library.add_text("dated", source="d", metadata={"day": date(2026, 5, 1)})
    (hit,) = answer("search", "dated", "--mode", "keyword")
    assert hit["metadata"]["day"] == "2026-05-01"
    assert isinstance(hit["score"], float)


@pytest.mark.parametrize(
    "options",
    [
        ("--alpha", "1.5"),
        ("--alpha", "nan"),
        ("--alpha", "half"),
        ("--min-score", "inf"),
        ("-k", "-1"),
        ("-k", "2.5"),
        ("--mode", "magic"),
        ("--where", "{lang: en}"),
        ("--where", "[1]"),
        ("--where", '{"a": NaN}'),
        ("--where", "[" * 100_000),
        ("--where", '{"a": {"$like": "b"}}'),
    ],
)
def test_a_value_that_cannot_be_is_a_usage_error(kb, filled, options):
    result = kb("search", "days", *options, code=2)
    assert options[0] in result.stderr
    assert "Traceback" not in result.stderr


def test_a_query_is_text_and_never_syntax(kb, filled):
    for query in ("a\0b", "-- --", 'E-4012" OR *:*', "[bold]days[/bold]", "\udce4\udcb8 days", "🚀" * 3):
        kb("search", "--", query)
    assert "E-4012" in kb("search", "E-4012", "--mode", "keyword").stdout


def test_more_hits_than_any_engine_counts_gives_all(answer, filled):
    assert len(answer("search", "days", "--mode", "vector", "-k", str(10**12))) == 3


NUMBER = r"[\d.]+"
PART = rf"(?:normalised (?P<{{0}}>{NUMBER})|.*: 0) x (?P<{{0}}_weight>{NUMBER}) = (?P<{{0}}_part>{NUMBER})\n"
EXPLAINED = re.compile(
    rf"vector: +cosine -?{NUMBER}, {PART.format('v')}"
    rf"keyword: +BM25 +(?:{NUMBER}|-), {PART.format('k')}"
    rf"score: +(?P<a>{NUMBER}) \+ (?P<b>{NUMBER}) = (?P<score>{NUMBER}) \(minmax\)"
)


def test_explained_parts_add_up_to_the_score_shown(kb, filled):
    blocks = kb("search", "days for items", "--explain", "--alpha", "0.6").stdout.split("[Score: ")[1:]
    assert len(blocks) == 3
    for block in blocks:
        found = EXPLAINED.search(block)
        assert found, block
        assert (found["v_weight"], found["k_weight"]) == ("0.60", "0.40")
        assert (found["a"], found["b"]) == (found["v_part"], found["k_part"])
        assert float(found["a"]) + float(found["b"]) == pytest.approx(float(found["score"]), abs=2e-4)
        assert float(found["v_part"]) == pytest.approx(0.6 * float(found["v"] or 0), abs=2e-4)
        assert float(found["k_part"]) == pytest.approx(0.4 * float(found["k"] or 0), abs=2e-4)
        assert float(block.partition("]")[0]) == pytest.approx(float(found["score"]), abs=6e-4)


def test_explained_json_holds_raw_scores_and_an_exact_sum(answer, filled):
    for hit in answer("search", "days for items", "--explain"):
        explanation = hit["explanation"]
        assert explanation["vector"]["raw"] == hit["vector_score"]
        assert explanation["keyword"]["raw"] == hit["keyword_score"]
        assert explanation["alpha"] + explanation["keyword"]["weight"] == pytest.approx(1)
        assert explanation["vector"]["contribution"] + explanation["keyword"]["contribution"] == hit["score"]


def test_a_score_of_one_matcher_is_explained_as_its_own(kb, filled):
    printed = kb("search", "norway", "--mode", "keyword", "--explain").stdout
    assert "as that matcher gave it" in printed
    assert "vector:" not in printed
    raw = re.search(r"keyword: BM25 +([\d.]+)\n", printed)
    assert raw
    assert f"score:   {raw[1]}" in printed


def test_explaining_changes_no_hit(answer, filled):
    plain = answer("search", "days for items")
    explained = answer("search", "days for items", "--explain")
    assert [{**hit, "explanation": None} for hit in plain] == [{**hit, "explanation": None} for hit in explained]
