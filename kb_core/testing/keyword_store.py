"""The contract of `KeywordStore`, as tests."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log
from typing import Any

import pytest

from kb_core.documents import Chunk
from kb_core.protocols import Hit, KeywordStore, Selection
from kb_core.testing.suite import Suite

ODD_IDS = ["1-0", "./data/a.txt_1", "-8", "", " ", "ключ", "退货", "😀", "a\nb", "A", "a", "\u00e9", "e\u0301", "\x00"]
# Words that no stemmer changes and no list of stop words has.
WORDS = ["bad", "fig", "hub", "jam", "kin", "log", "map", "nut", "owl", "pan"]


def chunks(texts: Mapping[str, str]) -> list[Chunk]:
    """Make chunks from texts by id."""
    return [Chunk(id=each, document_id="d", content=text) for each, text in texts.items()]


def ids_of(hits: Sequence[Hit]) -> list[str]:
    """Give the ids of hits, in their order."""
    return [hit.id for hit in hits]


def exact(texts: Mapping[str, str], query: str, k: int, within: frozenset[str] | None = None) -> list[Hit]:
    """Search texts of `WORDS` by plain arithmetic: the model that a store is compared with."""
    counts = {each: Counter(text.split()) for each, text in texts.items()}
    average = sum(each.total() for each in counts.values()) / max(len(counts), 1)
    scores: Counter[str] = Counter()
    for word in query.split():
        n = sum(word in each for each in counts.values())
        for chunk_id, each in counts.items():
            if each[word]:
                norm = 1.2 * (0.25 + 0.75 * each.total() / average)
                idf = log(1 + (len(counts) - n + 0.5) / (n + 0.5))
                scores[chunk_id] += idf * each[word] * 2.2 / (each[word] + norm)  # type: ignore[assignment]
    hits = [Hit(each, float(f"{score:.9g}")) for each, score in scores.items() if within is None or each in within]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:k]


def assert_alike(hits: Sequence[Hit], expected: Sequence[Hit]) -> None:
    """Compare ids exactly and scores up to what an engine's float32 loses."""
    assert ids_of(hits) == ids_of(expected)
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], rel=4e-6)


def text_of(generator: random.Random, n_words: int) -> str:
    """Draw words, some of them more often than others."""
    return " ".join(generator.choices(WORDS, weights=range(1, len(WORDS) + 1), k=n_words))


class KeywordStoreSuite(Suite):
    """Subclass with a `store` fixture: a new, empty store for English text, for each test."""

    @pytest.fixture
    def store(self) -> Any:
        """Give the empty store under test."""
        raise TypeError("a subclass of KeywordStoreSuite must have a `store` fixture")

    def test_it_has_the_shape_of_the_protocol(self, store: KeywordStore) -> None:
        assert isinstance(store, KeywordStore)

    def test_a_new_store_is_empty_and_finds_nothing(self, store: KeywordStore) -> None:
        assert (store.count(), store.revision) == (0, 0)
        assert store.search("anything at all", 5) == []
        assert store.search("anything at all", 5, within=Selection(["a"])) == []

    def test_scores_are_bm25(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple apple banana", "b": "banana cherry"}))
        # N = 2, average length 2.5; a: 1.2 * (0.25 + 0.75 * 3 / 2.5) = 1.38, b: 1.2 * (0.25 + 0.75 * 2 / 2.5) = 1.02.
        # apple: ln(1 + 1.5 / 1.5) = ln 2;  a: ln 2 * 2 * 2.2 / (2 + 1.38) = 0.902322
        assert_alike(store.search("apple", 5), [Hit("a", 0.902322)])
        # banana: ln(1 + 0.5 / 2.5) = ln 1.2;  a: ln 1.2 * 2.2 / 2.38 = 0.168533;  b: ln 1.2 * 2.2 / 2.02 = 0.198568
        assert_alike(store.search("banana", 5), [Hit("b", 0.198568), Hit("a", 0.168533)])

    def test_a_term_given_twice_weighs_twice(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple banana", "b": "cherry"}))
        once, twice = store.search("apple", 1), store.search("apple apple", 1)
        assert twice[0].score == pytest.approx(2 * once[0].score)

    def test_a_term_in_half_or_all_of_the_chunks_still_scores_above_zero(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "Hello there good man!", "b": "It is quite windy in London"}))
        assert ids_of(store.search("windy London", 5)) == ["b"]
        store.upsert(chunks({"a": "windy", "b": "windy"}))
        hits = store.search("windy", 5)
        assert ids_of(hits) == ["a", "b"]
        assert all(hit.score > 0 for hit in hits)

    def test_one_chunk_is_found_however_many_are_asked_for(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple"}))
        assert ids_of(store.search("apple", 20)) == ["a"]
        assert ids_of(store.search("apple", 10**12)) == ["a"]

    def test_only_chunks_that_share_a_term_are_hits(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple", "b": "banana", "c": ""}))
        assert ids_of(store.search("apple zebra", 5)) == ["a"]
        assert store.search("zebra", 5) == []

    def test_equal_matches_score_equally_in_order_of_id(self, store: KeywordStore) -> None:
        store.upsert(chunks({"e": "quick fox", "d": "quick god", "a": "foo", "c": "baz", "b": "dog"}))
        first, second = store.search("quick", 5)
        assert (first.id, second.id) == ("d", "e")
        assert first.score == second.score > 0

    def test_ties_at_the_cut_go_by_id(self, store: KeywordStore) -> None:
        ids = [f"{i * 7919 % 997:04d}" for i in range(300)]
        store.upsert(chunks(dict.fromkeys(ids, "the same apple")))
        store.upsert(chunks({"other": "pear"}))
        assert ids_of(store.search("apple", 7)) == sorted(ids)[:7]

    def test_an_id_upserted_twice_is_held_once(self, store: KeywordStore) -> None:
        store.upsert([*chunks({"a": "apple"}), *chunks({"a": "banana"})])
        assert store.count() == 1
        assert store.search("apple", 5) == []
        store.upsert(chunks({"a": "cherry"}))
        assert store.count() == 1
        assert ids_of(store.search("apple banana cherry", 5)) == ["a"]
        assert store.search("banana", 5) == []

    def test_a_deleted_chunk_is_gone_and_unknown_ids_are_ignored(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple", "b": "apple"}))
        store.delete(["a", "a", "never seen"])
        assert store.count() == 1
        assert ids_of(store.search("apple", 5)) == ["b"]
        store.delete([])
        store.upsert([])
        assert store.count() == 1

    def test_forty_thousand_ids_are_deleted_at_once(self, store: KeywordStore) -> None:
        store.upsert(chunks({f"c{i}": f"apple {WORDS[i % 10]}" for i in range(500)}))
        store.delete([f"c{i}" for i in range(40_000)])
        assert store.count() == 0
        assert store.search("apple", 5) == []

    def test_clear_forgets_everything(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple"}))
        store.commit(7)
        assert store.revision == 7
        store.clear()
        assert (store.count(), store.revision) == (0, 0)
        assert store.search("apple", 5) == []
        store.upsert(chunks({"b": "apple"}))
        assert ids_of(store.search("apple", 5)) == ["b"]

    def test_closing_twice_is_harmless(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple"}))
        store.close()
        store.close()

    def test_replaying_changes_is_harmless(self, store: KeywordStore) -> None:
        for _ in range(2):
            store.delete(["b"])
            store.upsert(chunks({"a": "apple pie", "c": "apple"}))
            store.commit(3)
        assert store.count() == 2
        assert ids_of(store.search("apple", 5)) == ["c", "a"]

    def test_ids_may_be_any_string(self, store: KeywordStore) -> None:
        ids = [*ODD_IDS, "x" * 70_000]
        store.upsert(chunks(dict.fromkeys(ids, "apple")))
        assert ids_of(store.search("apple", 50)) == sorted(ids)
        assert ids_of(store.search("apple", 50, within=Selection(["a\nb", ""]))) == ["", "a\nb"]
        store.delete(ids[:-1])
        assert ids_of(store.search("apple", 50)) == ids[-1:]

    def test_chunks_are_left_as_they_were(self, store: KeywordStore) -> None:
        chunk = Chunk(id="a", document_id="d", content="Apples!", metadata={"tags": ["x"]})
        before = chunk.model_copy(deep=True)
        store.upsert([chunk])
        store.search("apples", 1)
        assert chunk == before

    @pytest.mark.parametrize("top_k", [-1, True, 1.0, "3", None])
    def test_top_k_must_be_a_count(self, store: KeywordStore, top_k: Any) -> None:
        store.upsert(chunks({"a": "apple"}))
        with pytest.raises((ValueError, TypeError), match="top_k"):
            store.search("apple", top_k)

    def test_top_k_zero_gives_nothing(self, store: KeywordStore) -> None:
        store.upsert(chunks({"a": "apple"}))
        assert store.search("apple", 0) == []

    @pytest.mark.parametrize("query", ["", "   ", "\n\t", "?!", "the of a", "—", '"', "(", "\\", "\x00", "😀"])
    def test_a_query_without_any_term_finds_nothing(self, store: KeywordStore, query: str) -> None:
        store.upsert(chunks({"a": "the apple of a tree", "b": "?! ()"}))
        assert store.search(query, 5) == []

    @pytest.mark.parametrize(
        "query",
        [
            'fawkes 36" blue vanity',
            "https://website.org",
            "comment:\nwords",
            "-foo",
            "y+(y+25)",
            "following:",
            ">>> quux",
            "don't use agents",
            "who's on first",
            "ubuntu 20.04",
            "park.",
            "@nasa",
            "#tag",
            "a=b",
            "50%",
            "why?",
            "title:foo AND (bar OR NOT [baz TO qux]) ^2 ~1 *",
            "back\\slash 'single' \"double",
            "100% {json: 'like'} $where",
            "AND",
            "NEAR/3 zebra",
        ],
    )
    def test_a_query_is_text_and_never_syntax(self, store: KeywordStore, query: str) -> None:
        store.upsert(chunks({"other": "nothing of the kind", "hit": f"Before, {query} and more"}))
        hits = store.search(query, 5)
        # `AND` is a stop word, and a query of stop words finds nothing.
        assert ids_of(hits[:1]) == ([] if query == "AND" else ["hit"])

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("re\u0301sume\u0301 of the year", "r\u00e9sum\u00e9"),
            ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
            ("ＦＵＬＬ width", "full"),
            ("STRASSE", "straße"),
            ("Война и мир", "МИР"),
            ("हिन्दी में लिखा", "हिन्दी"),
            ("שָׁלוֹם עוֹלָם", "שלום"),
            ("السَّلَامُ عليكم", "السلام"),
            ("ภาษาไทยง่ายนิดเดียว", "ไทย"),
            ("春眠不觉晓", "觉晓"),
            ("東京タワーに行く", "タワー"),
            ("getUserName()", "user name"),
            ("call get_user_name", "getUserName"),
            ("written in C++ or C#", "C#"),
        ],
    )
    def test_words_of_any_script_are_found(self, store: KeywordStore, text: str, query: str) -> None:
        store.upsert(chunks({"hit": text, "other": "something else altogether"}))
        assert ids_of(store.search(query, 5)) == ["hit"]

    def test_the_end_of_one_verse_finds_that_verse(self, store: KeywordStore) -> None:
        store.upsert(chunks({"1": "春眠不觉晓", "2": "处处闻啼鸟", "3": "夜来风雨声", "4": "花落知多少"}))
        assert ids_of(store.search("多少", 5)) == ["4"]

    def test_search_stays_within_a_selection(self, store: KeywordStore) -> None:
        store.upsert(chunks({f"c{i:03d}": "apple " * (1 + i % 5) + "pie" for i in range(300)}))
        everything = ids_of(store.search("apple", 300))
        for allowed in ({"c007"}, {"c001", "c299", "gone"}, set(everything[150:]), set(everything), set()):
            expected = [each for each in everything if each in allowed]
            assert ids_of(store.search("apple", 300, within=Selection(allowed))) == expected
            assert ids_of(store.search("apple", 3, within=Selection(allowed))) == expected[:3]
        assert store.search("zebra", 3, within=Selection(everything)) == []

    def test_it_ranks_like_plain_arithmetic_whatever_happened_before(self, store: KeywordStore) -> None:
        generator, held = random.Random(7), dict[str, str]()  # noqa: S311  the same texts in every run
        for step in range(40):
            touched = [f"c{generator.randrange(90)}" for _ in range(generator.choice([1, 4, 30]))]
            if generator.random() < 0.7:
                texts = {each: text_of(generator, generator.choice([0, 2, 9, 60, 200])) for each in touched}
                store.upsert(chunks(texts))
                held |= texts
            else:
                store.delete(touched)
                held = {each: text for each, text in held.items() if each not in touched}
            store.commit(step + 1)
            assert store.count() == len(held)
            query, k = text_of(generator, generator.choice([1, 3, 8])), generator.choice([1, 5, 200])
            allowed = None if generator.random() < 0.6 else frozenset(f"c{i}" for i in range(generator.randrange(90)))
            hits = store.search(query, k, within=None if allowed is None else Selection(allowed))
            assert_alike(hits, exact(held, query, k, allowed))

    def test_it_may_be_searched_while_it_is_written(self, store: KeywordStore) -> None:
        store.upsert(chunks({"kept": "apple"}))
        is_done = threading.Event()

        def search() -> int:
            n_searches = 0
            while not is_done.is_set() or not n_searches:
                hits = store.search("apple", 1000)
                assert "kept" in ids_of(hits)
                assert len(set(ids_of(hits))) == len(hits)
                n_searches += 1
            return n_searches

        def write(name: str) -> None:
            for i in range(20):
                store.upsert(chunks({f"{name}{i}-{j}": f"apple {WORDS[j]}" for j in range(10)}))
                store.delete([f"{name}{i}-{j}" for j in range(5)])

        with ThreadPoolExecutor(4) as pool:
            searches = [pool.submit(search) for _ in range(2)]
            try:
                for writer in [pool.submit(write, name) for name in "xy"]:
                    writer.result()
            finally:
                is_done.set()
            assert all(each.result() for each in searches)
        assert store.count() == 1 + 2 * 20 * 5


class PersistentKeywordStoreSuite(KeywordStoreSuite):
    """For a store that outlives its object. Subclass with an `open_store` fixture.

    `open_store` gives a function that opens a store on the same, at first empty place every time.
    """

    @pytest.fixture
    def open_store(self) -> Any:
        """Give the function that opens the store."""
        raise TypeError("a subclass of PersistentKeywordStoreSuite must have an `open_store` fixture")

    @pytest.fixture
    def store(self, open_store: Callable[[], KeywordStore]) -> Iterator[KeywordStore]:
        """Open the store under test, and close it."""
        store = open_store()
        yield store
        store.close()

    def test_reopened_it_holds_what_its_revision_says(self, open_store: Callable[[], KeywordStore]) -> None:
        store = open_store()
        store.upsert(chunks({f"c{i:04d}": f"apple {WORDS[i % 10]}" for i in range(1500)}))
        store.delete(["c0003"])
        store.commit(5)
        before = store.search("apple nut", 20)
        store.close()
        store = open_store()
        assert store.revision in {0, 5}
        if store.revision:
            assert store.count() == 1499
            assert store.search("apple nut", 20) == before
        store.close()

    def test_cleared_it_stays_empty_when_reopened(self, open_store: Callable[[], KeywordStore]) -> None:
        store = open_store()
        store.upsert(chunks({f"c{i:04d}": "apple" for i in range(1500)}))
        store.commit(5)
        store.clear()
        store.close()
        store = open_store()
        assert (store.revision, store.count()) == (0, 0)
        store.close()
