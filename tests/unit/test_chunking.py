import re
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kb_core.chunking import Chunker, Span

FAMILY = "👨‍👩‍👧‍👦"  # 7 code points, one grapheme

PIECES = [
    "a", "word", "longer-word", "antidisestablishmentarianism", "x" * 60, "3.14", "e.g.", "Yes!", '"Why?"', "(so.)",
    " ", "  ", "\t", "\n", "\n\n", "\r\n", "\r\n\r\n", "\n \t\n", " \n", "\u3000", "\u00a0", "\u2029",
    " " * 30, "\n" * 25, ". ", "! ", "? ", ", ", "。", "！", "？」", "中文", "日本語のテキスト",
    "한국어", "\u1112\u1161\u11ab" * 3, "🚀", FAMILY, "🇩🇪🇫🇷", "👍🏽", "e\u0301", "a" + "\u0301" * 20, "हिन्दी", "क्षत्रिय",
    "שָׁלוֹם", "ภาษาไทย", "\u200d", "\ufe0f",
    "\n# Heading\n", "\n\n## Another one.\n\n", "#hash", "\n```py\n# comment\n\nx = 1\n```\n",
    "```", "~~~", "\n~~~\n", "- ",
]  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=120)


@st.composite
def chunkers(draw, separators):
    size = draw(st.integers(1, 40) | st.integers(1, 400))
    overlap = draw(st.integers(0, size - 1) | st.just(size - 1))
    return Chunker(chunk_size=size, chunk_overlap=overlap, separators=draw(separators))


stock_chunkers = chunkers(st.none())

literal_chunkers = chunkers(st.lists(st.sampled_from([",", ". ", "\n", " ", "word", "ab", "  \n"]), max_size=4))


def pieces(text, **config):
    return [text[start:end] for start, end in Chunker(**config).split(text)]


def next_visible(text, position):
    return next((at for at in range(position, len(text)) if not text[at].isspace()), len(text))


def check_promises(text, chunker):
    """Check all that holds for every text and every setting."""
    spans = chunker.split(text)
    covered = set()
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert end - start <= chunker.chunk_size
        assert text[start:end] == text[start:end].strip()
        covered.update(range(start, end))
    assert [at for at, character in enumerate(text) if not character.isspace() and at not in covered] == []
    for former, latter in pairwise(spans):
        assert former.start < latter.start
        assert former.end < latter.end
        check_share(text, chunker, former, latter)
    if len(text.strip()) <= chunker.chunk_size:
        assert [text[start:end] for start, end in spans] == ([text.strip()] if text.strip() else [])
    return spans


def check_share(text, chunker, former, latter):
    fresh = next_visible(text, former.end)
    if chunker.chunk_overlap == 0 or fresh - former.end > chunker.chunk_size - 2:
        assert latter.start == fresh
    else:
        assert 1 <= former.end - latter.start <= chunker.chunk_overlap


class TestSettings:
    def test_defaults_are_512_and_50(self):
        assert Chunker() == Chunker(chunk_size=512, chunk_overlap=50, separators=None)

    @pytest.mark.parametrize(("size", "overlap"), [(10, 10), (10, 11), (0, 0), (-3, 0), (10, -1), (0, -1), (10, 50)])
    def test_sizes_out_of_range_are_refused_with_both_numbers(self, size, overlap):
        with pytest.raises(ValueError, match=f"chunk_size={size} and chunk_overlap={overlap}"):
            Chunker(chunk_size=size, chunk_overlap=overlap)

    @pytest.mark.parametrize("value", [10.0, "10", None, True, False])
    @pytest.mark.parametrize("name", ["chunk_size", "chunk_overlap"])
    def test_a_size_that_is_not_an_int_is_refused(self, name, value):
        with pytest.raises(TypeError, match=f"{name} must be an int, got {value!r}"):
            Chunker(**{name: value})

    def test_an_empty_separator_is_refused(self):
        with pytest.raises(ValueError, match=r"got \[',', ''\]"):
            Chunker(separators=[",", ""])

    @pytest.mark.parametrize("value", [",", [1], 5])
    def test_separators_that_are_no_sequence_of_strings_are_refused(self, value):
        with pytest.raises(TypeError, match="sequence of strings"):
            Chunker(separators=value)

    def test_equal_settings_are_equal_and_print_alike(self):
        assert Chunker(separators=[","]) == Chunker(separators=(",",))
        assert repr(Chunker(separators=[","])) == "Chunker(chunk_size=512, chunk_overlap=50, separators=(',',))"
        assert len({Chunker(separators=[","]), Chunker(separators=(",",)), Chunker()}) == 2

    def test_a_chunker_does_not_change(self):
        with pytest.raises(AttributeError):
            Chunker().chunk_size = 7

    def test_text_that_is_not_a_str_is_refused(self):
        with pytest.raises(TypeError, match="text must be a str, got bytes"):
            Chunker().split(b"bytes")


class TestPromises:
    @settings(max_examples=200, deadline=2000)
    @given(texts, stock_chunkers)
    @example("a" + " " * 50 + "b", Chunker(8, 3))
    @example("a b", Chunker(2, 1))
    @example("a\n\n" + "b" * 20, Chunker(8, 3))
    @example("a\n```\n" + "x" * 10 + "\n```\nb", Chunker(18, 5))
    @example("text\n\n```\n" + "x" * 10 + "\n```\n\ntext", Chunker(18, 17))
    @example("a \u1112\u1161\u11ab\u1112\u1161\u11ab", Chunker(3, 2))
    @example("ab" * 30 + " " * 19 + "c", Chunker(20, 19))
    def test_every_promise_holds_for_stock_separators(self, text, chunker):
        check_promises(text, chunker)

    @settings(max_examples=100, deadline=2000)
    @given(texts, literal_chunkers)
    def test_every_promise_holds_for_given_separators(self, text, chunker):
        check_promises(text, chunker)

    @settings(max_examples=200, deadline=2000)
    @given(texts.filter(lambda text: "```" not in text and "~~~" not in text), stock_chunkers)
    def test_a_share_starts_at_a_word_where_the_overlap_has_room_for_one(self, text, chunker):
        size, overlap = chunker.chunk_size, chunker.chunk_overlap
        for former, latter in pairwise(chunker.split(text)):
            fresh = next_visible(text, former.end)
            earliest = max(former.start + 1, former.end - overlap, fresh + 1 - size)
            room = range(earliest, former.end)
            if any(text[at - 1].isspace() and not text[at].isspace() for at in room):
                assert text[latter.start - 1].isspace()

    @settings(max_examples=200, deadline=2000)
    @given(texts, st.integers(0, 60), st.integers(0, 60))
    @example("👍🏽\n\n## Another one.\n\na", 0, 15)
    def test_no_grapheme_is_cut_where_chunk_and_overlap_have_room_for_it(self, text, spare, more):
        text = text.replace("```", "").replace("~~~", "")
        clusters = regex.findall(r"\X", text)
        longest = max(map(len, clusters), default=1)
        boundaries = {0}
        for cluster in clusters:
            boundaries.add(max(boundaries) + len(cluster))
        gap = max(map(len, re.findall(r"\s+", text)), default=0)
        overlap = longest + spare
        for chunker in (Chunker(longest + more, 0), Chunker(overlap + gap + longest + more, overlap)):
            for start, end in chunker.split(text):
                # A mark that follows a blank makes one grapheme with it; dropping the blank is no cut.
                assert start in boundaries or text[start - 1].isspace()
                assert end in boundaries or text[end : end + 1].isspace()

    @settings(max_examples=100, deadline=2000)
    @given(
        st.lists(st.sampled_from(["word", "a", "other", "中文字", "e\u0301"]), min_size=1, max_size=200).map(" ".join)
    )
    def test_every_chunk_but_the_last_is_at_least_half_full_where_there_are_words(self, text):
        for start, end in Chunker(40, 10).split(text)[:-1]:
            assert end - start >= 20


class TestOverlap:
    def test_a_word_without_seams_overlaps_too(self):
        assert pieces("abcdefghij", chunk_size=5, chunk_overlap=2) == ["abcde", "defgh", "ghij"]

    def test_pieces_that_fit_overlap_too(self):
        # Two characters a chunk, one of them shared: no other way to cut it.
        assert pieces("123,456", chunk_size=2, chunk_overlap=1, separators=[","]) == [
            "12",
            "23",
            "3,",
            ",4",
            "45",
            "56",
        ]

    def test_without_overlap_nothing_is_shared(self):
        assert pieces("abcdefghij", chunk_size=5, chunk_overlap=0) == ["abcde", "fghij"]

    def test_short_markdown_sections_overlap_by_whole_words(self):
        text = (
            "# One\n\nThe first section ends here.\n\n# Two\n\nThe second one does too.\n\n# Three\n\nAnd so does this."
        )
        assert pieces(text, chunk_size=50, chunk_overlap=12) == [
            "# One\n\nThe first section ends here.",
            "ends here.\n\n# Two\n\nThe second one does too.",
            "does too.\n\n# Three\n\nAnd so does this.",
        ]

    def test_four_hundred_words_overlap_everywhere(self):
        text = " ".join(f"word{number}" for number in range(400))
        spans = Chunker(100, 50).split(text)
        shares = [text[latter.start : former.end] for former, latter in pairwise(spans)]
        assert all(share.startswith("word") and 36 <= len(share) <= 50 for share in shares)

    def test_the_blanks_between_count_towards_the_overlap(self):
        # 2 blanks leave 8 of 10 characters: "one two" (7) fits, "zero one two" does not.
        text = "begin here zero one two\n\nthree four five six seven"
        assert pieces(text, chunk_size=36, chunk_overlap=10)[1].startswith("one two\n\nthree")

    def test_a_share_is_shortened_where_that_keeps_the_next_paragraph_whole(self):
        # The second paragraph takes 29 characters of 40; "end of the first" and two blanks would take 18.
        text = "this is the end of the first\n\nthe second, which stays whole"
        assert pieces(text, chunk_size=40, chunk_overlap=20)[1] == "the first\n\nthe second, which stays whole"

    def test_blanks_that_no_chunk_can_span_part_without_a_share(self):
        assert pieces("abc" + " " * 9 + "def", chunk_size=10, chunk_overlap=5) == ["abc", "def"]

    def test_blanks_that_a_chunk_can_just_span_are_bridged(self):
        assert pieces("abc" + " " * 8 + "def", chunk_size=10, chunk_overlap=5) == ["abc", "c" + " " * 8 + "d", "def"]


class TestSeams:
    def test_a_text_that_fits_is_one_chunk_without_its_outer_blanks(self):
        assert Chunker(13, 3).split("\n  two  words.\n\n") == [Span(3, 14)]

    @pytest.mark.parametrize("text", ["", " ", "\n\n\t \r\n", "\u3000\u00a0" * 300])
    def test_blank_text_has_no_chunks(self, text):
        assert Chunker(8, 2).split(text) == []

    def test_double_blanks_and_trailing_lines_stay_as_they_are(self):
        text = "  One sentence.  Another sentence.  \n\n The last.\n"
        assert pieces(text, chunk_size=20, chunk_overlap=0) == ["One sentence.", "Another sentence.", "The last."]

    @pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n", " \n\n  "])
    def test_paragraphs_part_before_lines(self, gap):
        text = f"First line.\nSecond line.{gap}Third line.\nFourth."
        assert pieces(text, chunk_size=40, chunk_overlap=0) == ["First line.\nSecond line.", "Third line.\nFourth."]

    def test_lines_part_before_sentences(self):
        text = "Alpha beta gamma\ndelta. Epsilon zeta eta theta."
        assert pieces(text, chunk_size=32, chunk_overlap=0) == ["Alpha beta gamma", "delta. Epsilon zeta eta theta."]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("It ended. ", "Then it began again"),
            ("Did it end? ", "Then it began again"),
            ('She said "it ended." ', "Then it began again"),
            ("(It really ended!) ", "Then it began again"),
            ("कहानी समाप्त हुई। ", "फिर शुरू हुई कहानी"),
            ("これで終わりです。", "そしてまた始まりました"),
            ("「これで終わりです！」", "そしてまた始まりました"),
            ("真的结束了吗？", "然后它又重新开始了一次"),
        ],
    )
    def test_sentences_part_before_words(self, first, second):
        text = first + second
        assert pieces(text, chunk_size=len(text) - 2, chunk_overlap=0) == [first.rstrip(), second]

    def test_a_full_stop_within_a_number_or_name_ends_no_sentence(self):
        assert pieces("version 3.11 of kb.sqlite", chunk_size=16, chunk_overlap=0) == ["version 3.11 of", "kb.sqlite"]

    def test_words_part_before_letters(self):
        assert pieces("alpha beta gamma delta", chunk_size=12, chunk_overlap=0) == ["alpha beta", "gamma delta"]

    def test_a_paragraph_that_fits_is_not_cut_to_fill_the_chunk_before_it(self):
        text = "Short one.\n\n" + "A paragraph of fifty characters, more or less so."
        assert pieces(text, chunk_size=50, chunk_overlap=0) == text.split("\n\n")

    def test_a_short_paragraph_goes_with_the_start_of_one_that_has_to_be_cut(self):
        long = " ".join(["Some words make a sentence."] * 8)
        text = f"Intro A.\n\n{long}\n\nOutro B."
        found = pieces(text, chunk_size=80, chunk_overlap=0)
        assert found[0] == "Intro A.\n\nSome words make a sentence. Some words make a sentence."
        assert found[-1].endswith("\n\nOutro B.")
        assert "".join("".join(found).split()) == "".join(text.split())

    def test_no_chunk_glues_together_what_is_apart(self):
        text = "Intro A.\n\n" + "x" * 500 + "\n\nOutro B."
        found = pieces(text, chunk_size=100, chunk_overlap=10)
        assert all(chunk in text for chunk in found)
        assert not any("Intro" in chunk and "Outro" in chunk for chunk in found)
        assert [sum(mark in chunk for chunk in found) for mark in ("Intro A.", "Outro B.")] == [1, 1]

    def test_prose_is_cut_where_a_reader_would(self):
        text = (
            "Returns are accepted within thirty days. Keep the receipt! Opened software cannot be returned.\n\n"
            "Refunds go to the card that was used. They take five working days.\n\n"
            "Questions? Write to us."
        )
        assert pieces(text, chunk_size=80, chunk_overlap=20) == [
            "Returns are accepted within thirty days. Keep the receipt!",
            "Keep the receipt! Opened software cannot be returned.",
            "be returned.\n\nRefunds go to the card that was used. They take five working days.",
            "five working days.\n\nQuestions? Write to us.",
        ]

    def test_given_separators_stay_with_the_text_before_them(self):
        found = pieces("one,two|three,four|five", chunk_size=10, chunk_overlap=0, separators=["|", ","])
        assert found == ["one,two|", "three,", "four|five"]


class TestGraphemes:
    def test_a_hard_cut_falls_between_graphemes(self):
        assert pieces(FAMILY * 4, chunk_size=10, chunk_overlap=0) == [FAMILY] * 4
        assert pieces(FAMILY * 6, chunk_size=21, chunk_overlap=7) == [FAMILY * 3, FAMILY * 3, FAMILY * 2]

    @pytest.mark.parametrize("unit", ["中", "e\u0301", "🇩🇪", "👍🏽", "क्षि", "שָׁ", "\u1112\u1161\u11ab"])
    def test_scripts_without_blanks_are_cut_between_graphemes(self, unit):
        size = 5 * len(unit) + 1 if len(unit) > 1 else 5
        for chunk in pieces(unit * 37, chunk_size=size, chunk_overlap=2 * len(unit)):
            assert chunk == unit * (len(chunk) // len(unit))

    def test_a_grapheme_longer_than_a_chunk_is_cut_for_the_size(self):
        assert pieces("🚀", chunk_size=1, chunk_overlap=0) == ["🚀"]
        assert "".join(pieces(FAMILY, chunk_size=3, chunk_overlap=0)) == FAMILY
        assert pieces("\u1112\u1161\u11ab" * 2, chunk_size=2, chunk_overlap=0)[0] == "\u1112\u1161"

    def test_hangul_syllables_at_two_a_chunk(self):
        assert pieces("가나다라마" * 10, chunk_size=2, chunk_overlap=0) == ["가나", "다라", "마가", "나다", "라마"] * 5

    def test_a_share_cuts_a_grapheme_only_where_the_overlap_is_shorter_than_it(self):
        # 2 characters of overlap cannot hold the 7 of the family; its last visible part is the boy.
        assert pieces(FAMILY * 2, chunk_size=10, chunk_overlap=2) == [FAMILY, "👦" + FAMILY]


class TestMarkdown:
    def test_a_heading_goes_with_the_text_below_it(self):
        text = "A first paragraph of some length.\n\n## Heading\n\nThe text below the heading is here."
        assert pieces(text, chunk_size=60, chunk_overlap=0) == [
            "A first paragraph of some length.",
            "## Heading\n\nThe text below the heading is here.",
        ]

    def test_a_section_starts_a_chunk_rather_than_a_later_paragraph(self):
        text = "Old section, twenty-nine long.\n\n# New\n\nFirst words.\n\nSecond words, which are many."
        assert pieces(text, chunk_size=60, chunk_overlap=0)[1].startswith("# New\n\nFirst words.\n\nSecond")

    @pytest.mark.parametrize("fence", ["```", "~~~", "````"])
    @pytest.mark.parametrize("prefix", ["", "- ", "1. ", "   "])
    def test_a_fence_that_fits_stays_whole(self, fence, prefix):
        indent = " " * len(prefix)
        code = f"{prefix}{fence}py\n{indent}# comment\n\n{indent}x = 1\n\n{indent}# more\n{indent}{fence}"
        text = f"Some text above, some words.\n\n{code}\n\nSome text below, some words."
        for size in range(len(code), len(text)):
            for overlap in (0, 1, 7, 20):
                spans = check_promises(text, Chunker(size, overlap))
                assert any(code.strip() in text[start:end] for start, end in spans)

    @settings(max_examples=100, deadline=2000)
    @given(
        st.lists(
            st.sampled_from(["Some text. ", "\n", "\n\n", "\n# Heading\n", "- ", "x" * 15, " " * 9, "```", "@"]),
            max_size=30,
        ),
        st.integers(0, 5),
        st.data(),
    )
    def test_every_fence_that_fits_stays_whole_whatever_is_around_it(self, parts, spare, data):
        fence = "```py\n# comment\n\nx = 1\n```"
        size = len(fence) + spare
        text = "".join(parts).replace("```", "").replace("@", f"\n{fence}\n")
        spans = check_promises(text, Chunker(size, data.draw(st.integers(0, size - 1))))
        places = [found.start() for found in re.finditer(re.escape(fence), text)]
        assert all(any(start <= at and at + len(fence) <= end for start, end in spans) for at in places)

    def test_a_comment_in_a_fence_is_no_heading(self):
        code = "```sh\n" + "echo some more words\n" * 4 + "# comment\n" + "echo even more words\n" * 4 + "```"
        found = pieces(code, chunk_size=130, chunk_overlap=0)
        assert len(found) == 2
        assert "# comment\necho" in found[0]

    def test_a_fence_too_long_for_a_chunk_is_cut_at_its_lines(self):
        code = "```py\n" + "\n".join(f"call(number={number})" for number in range(100, 120)) + "\n```"
        found = pieces(code, chunk_size=90, chunk_overlap=0)
        assert "\n".join(found) == code

    @pytest.mark.parametrize("closing", ["", "\n``", "\n~~~", "\n```py"])
    def test_a_fence_that_is_never_closed_loses_nothing(self, closing):
        text = f"# T\n\nSome text.\n\n```py\nx = 1{closing}\n\n## Important\n\nThe text that must not vanish."
        for size in range(5, len(text)):
            check_promises(text, Chunker(size, min(4, size - 1)))
        assert any(
            chunk.startswith("## Important\n\nThe text") for chunk in pieces(text, chunk_size=50, chunk_overlap=0)
        )

    def test_inline_code_marks_open_no_fence(self):
        text = "Use ```code``` here.\n\n# Title\n\nUse ```code``` there."
        assert pieces(text, chunk_size=40, chunk_overlap=0) == [
            "Use ```code``` here.",
            "# Title\n\nUse ```code``` there.",
        ]


class TestSize:
    """Inputs at which a recursive or backtracking splitter hangs or exhausts the stack; the run has a time limit."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "text",
        [
            "x" * 10_000_000,
            "a" + "\n" * 1_000_000 + "b",
            "a\n" * 1_000_000,
            "a" + " \t" * 1_000_000 + "b",
            "." * 2_000_000,
            ".)" * 1_000_000,
            "#" * 2_000_000,
            "# \n" * 500_000,
            "`" * 1_000_000 + "\n" + "```\n" * 300_000,
            ">" * 1_000_000 + "```",
            "中" * 1_000_000,
            "🇩🇪" * 200_000,
            "a" + "\u0301" * 1_000_000,
            FAMILY * 100_000,
            ("👨\u200d" * 200_000),
            "क्ष" * 200_000,
            "\n \r" * 600_000 + "b",
        ],
        ids=lambda text: repr(text[:4]),
    )
    def test_long_monotonous_texts_are_cut_in_bounded_time(self, text):
        spans = Chunker().split(text)
        assert all(end - start <= 512 for start, end in spans)
        assert spans[-1].end == len(text.rstrip())
        assert len(spans) <= 2 + len(text) // 200

    @pytest.mark.slow
    def test_ten_million_separators_are_cut_in_bounded_time(self):
        spans = Chunker(separators=[","]).split("," * 10_000_000)
        assert spans[0] == Span(0, 512)
        assert spans[-1].end == 10_000_000

    def test_the_largest_overlap_still_moves_on(self):
        # Each chunk moves on by one character: 1000 - 50 + 1 of them.
        assert Chunker(50, 49).split("x" * 1000) == [Span(at, at + 50) for at in range(951)]
