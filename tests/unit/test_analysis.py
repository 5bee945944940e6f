"""Text to terms."""

import gzip
import json
import math
import sys
import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_core.analysis import Analyzer, characters
from kb_core.documents import Chunk
from kb_core.stores.tantivy import TantivyKeywordStore
from tests.shared import JUDGED_SETS, needs

ENGLISH, PLAIN = Analyzer("en"), Analyzer(None)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("get_user_name", ["getusername", "get", "user", "name"]),
        ("get-user-name", ["getusername", "get", "user", "name"]),
        ("HTTPServer2", ["httpserver2", "http", "server", "2"]),
        ("utf8Decoder", ["utf8decoder", "utf", "8", "decoder"]),
        ("v1.2.3", ["v1.2.3", "v", "1", "2", "3"]),
        ("ubuntu 20.04", ["ubuntu", "20.04", "20", "04"]),
        ("2024-05-17", ["2024-05-17", "2024", "05", "17"]),
        ("foo.bar()", ["foo.bar", "foo", "bar"]),
        ("src/main/app.py", ["src", "main", "app.py", "app", "py"]),
        ("jane.doe@example.com", ["jane.doe@example.com", "jane", "doe", "example", "com"]),
        ("https://website.org/a?b=1", ["https", "website.org", "website", "org", "a", "b", "1"]),
        ("C++ and C#, c", ["c++", "c", "and", "c#", "c", "c"]),
        ("ASP.NET, .NET", ["asp.net", "asp", "net", ".net", "net"]),
        ("#tag @nasa", ["#tag", "tag", "@nasa", "nasa"]),
        ("# Heading #1", ["heading", "1"]),
        ("y+(y+25)", ["y", "y", "25"]),
        ("a=b 50% why?", ["a", "b", "50", "why"]),
        ("the end.Next", ["the", "end.next", "end", "next"]),
        ("U.S.A. e.g.", ["usa", "eg"]),
        ("covid-19", ["covid19", "covid", "19"]),
        ("__init__", ["init"]),
        ("550e8400", ["550e8400"]),
        ("O'Reilly's", ["oreilly", "o", "reilly"]),
        ("John’s dogs'", ["john", "dogs"]),
        ("", []),
        (" \t\n\x00 ?! — … 😀", []),
    ],
)
def test_identifiers_are_found_whole_and_in_parts(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("שָׁלוֹם עוֹלָם", ["שלום", "עולם"]),
        ("السَّلَامُ عليـــكم", ["السلام", "عليكم"]),
        ("Straße ÉCOLE İstanbul", ["strasse", "école", "istanbul"]),
        ("Война и Мир", ["война", "и", "мир"]),
        ("п'ять", ["пять", "п", "ять"]),
        ("ИмяПоля", ["имяполя", "имя", "поля"]),
        ("東京タ", ["東", "京", "タ", "東京", "京タ"]),
        ("2015年iPhone版", ["2015", "年", "iphone", "i", "phone", "版"]),
        ("한국어", ["한", "국", "어", "한국", "국어"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("ព្រះ", ["ព្", "រះ", "ព្រះ"]),
        ("字", ["字"]),
        ("coop\u00aderate zero\u200bwidth", ["cooperate", "zero", "width"]),
        ("ﬁne １２３ ＡＢ", ["fine", "123", "ab"]),
    ],
)
def test_words_of_any_script(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


def test_stop_words_go_and_words_are_stemmed() -> None:
    assert ENGLISH.terms("the of a") == []
    assert ENGLISH.terms("Don't! Who’s on first?") == ["first"]
    assert ENGLISH.terms("The returned policies were running") == ["return", "polici", "run"]


def test_a_whole_that_has_more_than_letters_is_not_stemmed() -> None:
    assert ENGLISH.terms("analysis.py") == ["analysis.py", "analysi", "py"]


def test_one_identifier_is_the_same_in_every_spelling() -> None:
    whole = {ENGLISH.terms(each)[0] for each in ("getUserNames", "get_user_names", "get-user-names", "getusernames")}
    assert len(whole) == 1


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("fr", "l'avion qu'il d’accord", ["avion", "accord"]),
        ("de", "die Häuser und das Haus", ["haus", "haus"]),
        ("es", "las canciones de la canción", ["cancion", "cancion"]),
        ("ru", "книги о книгах", ["книг", "книг"]),
        ("tr", "IŞIK ışık", ["ışık", "ışık"]),
        ("el", "τους ΔΡΟΜΟΥΣ δρόμος", ["δρομ", "δρομ"]),
    ],
)
def test_other_languages_have_their_own_rules(language: str, text: str, terms: list[str]) -> None:
    assert Analyzer(language).terms(text) == terms


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"ar, da, de, .* or None .* got 'xx'"):
        Analyzer("xx")


def test_the_fingerprint_tells_analyses_apart() -> None:
    assert Analyzer("en").fingerprint == ENGLISH.fingerprint
    assert len({Analyzer(each).fingerprint for each in ("en", "de", None)}) == 3


@given(st.text())
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    terms = ENGLISH.terms(text)
    assert ENGLISH.terms(unicodedata.normalize("NFC", text)) == terms
    assert ENGLISH.terms(unicodedata.normalize("NFD", text)) == terms


@given(st.text())
def test_terms_are_short_and_hold_no_white_space(text: str) -> None:
    for term in ENGLISH.terms(text):
        assert term.split() == [term]
        assert len(term) <= 300


@given(st.text(alphabet="aZ0._-'@#+ é漢\u0301"))
def test_a_word_has_the_same_terms_in_any_text(text: str) -> None:
    # The second time within text that is not ASCII, which is cut by another pattern.
    assert PLAIN.terms(f"{text} —") == PLAIN.terms(text)


@pytest.mark.parametrize(
    "unit",
    ["a", "A", "aB", "a1", "a.", "a'", "_", "a_", "é", "漢", "ก", "\x00", ".", "\u0301\u0316", "ﾞ\u0334", "\ufdfa"],
)
def test_ten_million_characters_without_a_space_end_soon(unit: str) -> None:
    n = 10_000_000 if unit in {"a", "a."} else 300_000
    assert len(ENGLISH.terms(unit * (n // len(unit)))) <= 2 * n * len(unicodedata.normalize("NFKC", unit))


def test_words_that_share_a_very_long_head_are_told_apart() -> None:
    assert ENGLISH.terms("x" * 5000) != ENGLISH.terms("x" * 5001)


def test_every_character_that_normalises_to_a_mark_counts_as_one() -> None:
    """NFKC is quadratic in a run of marks, and these are what a run may hide behind."""
    letters = [
        point
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point))[0] not in "MC"
        and unicodedata.combining(unicodedata.normalize("NFKD", chr(point))[0])
    ]
    assert letters == [0xFF9E, 0xFF9F]


def _ndcg_at_10(store: TantivyKeywordStore, documents: dict[str, str], queries: dict[str, str], judged: dict) -> float:
    """Score documents by their best 512-character chunk (nDCG: Järvelin and Kekäläinen, 2002)."""
    pieces = {each: [text[i : i + 512] for i in range(0, len(text), 512)] for each, text in documents.items()}
    store.upsert(
        [
            Chunk(id=f"{each}#{i}", document_id=each, content=piece)
            for each, found in pieces.items()
            for i, piece in enumerate(found)
        ]
    )
    gains = []
    for query, relevant in judged.items():
        ranked = list(dict.fromkeys(hit.id.split("#")[0] for hit in store.search(queries[query], 60)))[:10]
        gain = sum(relevant.get(each, 0) / math.log2(i + 2) for i, each in enumerate(ranked))
        ideal = sorted(relevant.values(), reverse=True)[:10]
        gains.append(gain / sum(value / math.log2(i + 2) for i, value in enumerate(ideal)))
    return sum(gains) / len(gains)


@pytest.mark.slow
@needs(JUDGED_SETS)
@pytest.mark.parametrize(("name", "floor"), [("cran", 0.33), ("med", 0.66), ("xquad-en", 0.955), ("xquad-zh", 0.955)])
def test_judged_queries_find_what_was_judged_relevant(name: str, floor: float) -> None:
    folder = JUDGED_SETS / name
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    documents = {row["_id"]: f"{row.get('title', '')}\n{row['text']}" for row in rows}
    queries = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").read_text().splitlines())}
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, relevance = line.split("\t")
        if int(relevance) > 0:
            judged[query][document] = int(relevance)
    assert _ndcg_at_10(TantivyKeywordStore(), documents, queries, judged) >= floor


@pytest.mark.parametrize("sign", [sign for sign, _ in characters._TYPOGRAPHY])
@pytest.mark.parametrize("pattern", ["a{}b", "a {} b", "{}a", "a{}", "1{}2", "a{}.b", "don{}t", "x.{}y", "#{}a é"])
def test_the_quick_way_for_typography_gives_the_same_terms(sign, pattern):
    text = pattern.format(sign)
    slow = characters.unicode_word().findall(characters.normalise(text))
    analyzer = Analyzer()
    assert analyzer.terms(text) == [term for word in slow for term in analyzer.terms(word)]
