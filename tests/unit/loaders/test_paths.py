from pathlib import Path

import pytest

from kb_core.loaders import known_suffixes, looks_like_path, source_name


@pytest.mark.parametrize(
    "text",
    [
        "docs/missing.pdf", "missing.pdf", "README.md", "docs/", "./notes", "../x", "/etc/nothing", "C:\\docs\\a.txt",
        "docs\\missing", "~/notes", "docs/*.md", "a/b", "and/or", "report.XLSX", "photo.png", "script.py", "data.jsonl",
        "docs/missing.pdf\n", " notes.md ", "文档/说明.md", "https://example.org/page", "file:///tmp/a.md",
    ],
)  # fmt: skip
def test_what_was_most_likely_meant_as_a_path(text):
    assert looks_like_path(text)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "hello", "3.14", "v1.2", "U.S.", "example.com", "...", "see docs/a.md for more", "docs/my file.md",
        "a\nb/c",
        "<p>text</p>", '{"a":"b/c"}', "退货政策/三十天内可以退货。", "说" * 100 + "/" + "明", "x" * 300 + ".md",
        "/".join(["part"] * 1000), "a\0b/c.md", "Returns are accepted within 30 days.",
    ],
)  # fmt: skip
def test_what_is_a_text(text):
    assert not looks_like_path(text)


def test_suffixes_are_known_whether_a_loader_reads_them_or_not():
    assert {".md", ".pdf", ".docx", ".csv", ".jsonl", ".html", ".py", ".xlsx", ".png"} <= known_suffixes
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in known_suffixes)


def test_a_source_is_the_path_as_given_with_forward_slashes(tmp_path):
    assert source_name("handbook/returns.md") == "handbook/returns.md"
    assert source_name("./handbook//returns.md") == "handbook/returns.md"
    assert source_name(Path("handbook") / "returns.md") == "handbook/returns.md"
    assert source_name("../a b.md") == "../a b.md"
    assert source_name(tmp_path / "a.md") == (tmp_path / "a.md").as_posix()
