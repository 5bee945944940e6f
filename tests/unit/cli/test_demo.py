"""`kb demo`."""

from importlib.resources import files

from kb_core.cli.demo import SHOWCASES


def best(answers):
    return [(answer["results"][0]["source"], answer["results"][0]["content"]) for answer in answers]


def test_the_demo_answers_every_question_from_the_right_passage(answer, home):
    expected = [
        ("returns.md", "within 30 days"),
        ("api.md", "| E-4012 | 401 | the key has expired |"),
        ("warranty.md", "Rust is no fault"),
        ("on-call.md", "switch on\nthe flag `pay-later-only`"),
        ("changelog.md", "Warranty on motors is now five years"),
    ]
    found = best(answer("demo"))
    assert len(found) == len(SHOWCASES)
    for (source, content), (right_source, passage) in zip(found, expected, strict=True):
        assert source == right_source
        assert passage in content


def test_the_demo_leaves_nothing_behind(kb, home):
    printed = kb("demo").stdout
    assert list(home.iterdir()) == []
    assert "8 documents" in printed
    for showcase in SHOWCASES:
        assert showcase.query in printed
    assert printed.count("[Score: ") == len(SHOWCASES)


def test_one_question_of_the_demo_shares_no_word_with_its_answer(answer):
    rusty = answer("demo")[2]["results"][0]
    assert rusty["keyword_score"] is None


def test_the_handbook_is_plain_markdown_without_a_trace_of_a_real_company():
    folder = files("kb_core.cli") / "demo_corpus"
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert len(texts) == 8
    for name, text in texts.items():
        assert name.endswith(".md")
        assert text.startswith("# ")
