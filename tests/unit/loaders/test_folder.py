import os
from pathlib import Path

import pytest

from kb_core.errors import LoaderError, SourceNotFoundError
from kb_core.loaders import folder as folder_module
from kb_core.loaders import load_file, walk


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Makes files from names and stands in their folder."""
    monkeypatch.chdir(tmp_path)

    def make(*names, content=b"text"):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path

    return make


def names(folder, **options):
    return [path.as_posix() for path in walk(folder, **options)]


def test_files_come_folder_by_folder_in_order_of_names(tree):
    tree("h/b.md", "h/a/z.txt", "h/a/B.txt", "h/a.md", "h/ä.md", "h/c.d/x.py")
    assert names("h") == ["h/a/B.txt", "h/a/z.txt", "h/a.md", "h/b.md", "h/c.d/x.py", "h/ä.md"]


def test_names_begin_with_the_folder_as_it_was_given(tree):
    root = tree("h/a.md")
    assert names("./h/") == ["h/a.md"]
    assert names(".") == ["h/a.md"]
    assert names(root / "h") == [(root / "h/a.md").as_posix()]


def test_two_folders_with_equal_file_names_have_different_sources(tree):
    tree("one/a.md", "two/a.md")
    sources = [load_file(path).source for path in [*walk("one"), *walk("two")]]
    assert sources == ["one/a.md", "two/a.md"]


def test_hidden_files_version_control_dependencies_and_caches_are_left_out(tree):
    tree(
        "h/a.md", "h/.env", "h/.git/config", "h/.github/x.md", "h/.hidden.md", "h/node_modules/p/README.md",
        "h/sub/__pycache__/a.py", "h/.venv/pyvenv.cfg", "h/myenv/pyvenv.cfg", "h/myenv/lib/a.py",
        "h/target/CACHEDIR.TAG", "h/target/doc/index.html", "h/CVS/Root", "h/a.md~", "h/~$a.docx", "h/Thumbs.db",
        "h/prod.env", "h/docs/kb.sqlite", "h/docs/index/meta.json",
    )  # fmt: skip
    assert names("h") == ["h/a.md"]


def test_a_hidden_or_junk_folder_that_is_named_itself_is_walked(tree):
    tree(".notes/a.md", "node_modules/b.md", "env/pyvenv.cfg")
    assert names(".notes") == [".notes/a.md"]
    assert names("node_modules") == ["node_modules/b.md"]
    assert names("env") == ["env/pyvenv.cfg"]


def test_texts_without_a_suffix_are_found_and_binary_files_are_not(tree):
    tree("h/README", "h/Makefile", "h/empty")
    (tree() / "h/empty").write_bytes(b"")
    tree("h/blob", "h/x.unknown", content=b"\x7fELF\0\0")
    tree("h/a.png", "h/b.XLSX", "h/c.pyc")
    tree("h/utf16", content="Windows text".encode("utf-16"))
    skipped = []
    found = names("h", on_skip=lambda path, reason: skipped.append((path.name, reason)))
    assert found == ["h/Makefile", "h/README", "h/empty", "h/utf16"]
    assert skipped == [
        ("a.png", "no loader reads .png files"),
        ("b.XLSX", "no loader reads .xlsx files"),
        ("blob", "a binary file"),
        ("c.pyc", "no loader reads .pyc files"),
        ("x.unknown", "a binary file"),
    ]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["*.md"], [], ["h/a.md", "h/old/c.md", "h/sub/b.md"]),
        ("*.md", [], ["h/a.md", "h/old/c.md", "h/sub/b.md"]),
        (["/*.md"], [], ["h/a.md"]),
        (["sub/"], [], ["h/sub/b.md", "h/sub/b.txt"]),
        (["sub/*.txt", "a.*"], [], ["h/a.md", "h/sub/b.txt"]),
        ([], ["*.md"], ["h/sub/b.txt"]),
        ([], ["old"], ["h/a.md", "h/sub/b.md", "h/sub/b.txt"]),
        ([], ["old/", "!old/c.md"], ["h/a.md", "h/sub/b.md", "h/sub/b.txt"]),
        ([], ["*.md", "!b.md"], ["h/sub/b.md", "h/sub/b.txt"]),
        (["*.md"], ["**/old/**"], ["h/a.md", "h/sub/b.md"]),
        (["*.none"], [], []),
    ],
)
def test_patterns_work_as_in_gitignore(tree, include, exclude, expected):
    tree("h/a.md", "h/sub/b.md", "h/sub/b.txt", "h/old/c.md")
    assert names("h", include=include, exclude=exclude) == expected


def test_a_pattern_that_is_not_valid_is_refused_at_once(tree):
    tree("h/a.md")
    with pytest.raises(ValueError, match="!"):
        walk("h", include=["!"])


def test_a_hidden_file_is_not_found_by_a_pattern(tree):
    tree("h/.env", "h/a.md")
    assert names("h", include=[".env", "*.md"]) == ["h/a.md"]


def test_links_in_a_circle_end(tree):
    root = tree("h/sub/a.md")
    (root / "h/sub/up").symlink_to(root / "h")
    (root / "h/sub/self").symlink_to("self")
    (root / "h/x").symlink_to("y")
    (root / "h/y").symlink_to("x")
    assert names("h") == ["h/sub/a.md"]


def test_a_link_to_nothing_and_one_out_of_the_folder_are_left_out_and_told_of(tree):
    root = tree("h/a.md", "out/secret.md", "h2/b.md")
    (root / "h/broken.md").symlink_to("nowhere.md")
    (root / "h/secret.md").symlink_to(root / "out/secret.md")
    (root / "h/out").symlink_to(root / "out")
    (root / "h/sibling").symlink_to(root / "h2")
    skipped = {}
    assert names("h", on_skip=lambda path, reason: skipped.__setitem__(path.name, reason)) == ["h/a.md"]
    assert sorted(skipped) == ["broken.md", "out", "secret.md", "sibling"]
    assert skipped["broken.md"] == "a link to nothing, in a circle, or to no regular file"
    assert skipped["sibling"] == skipped["out"] == skipped["secret.md"] == "a link that leads out of the folder"


def test_a_link_to_what_is_found_anyway_adds_nothing(tree):
    root = tree("h/real/a.md")
    (root / "h/alias").symlink_to("real")
    (root / "h/alias.md").symlink_to("real/a.md")
    assert names("h") == ["h/real/a.md"]


def test_a_link_to_a_hidden_folder_inside_is_followed_as_in_mounted_configurations(tree):
    root = tree("h/..2024/a.md", "h/..2024/sub/b.md", "h/z.md", "h/.git/c.md", "h/.venv/pyvenv.cfg", "h/.venv/d.md")
    (root / "h/..data").symlink_to("..2024")
    (root / "h/a.md").symlink_to("..data/a.md")
    (root / "h/a2.md").symlink_to("..data/a.md")
    (root / "h/sub").symlink_to("..data/sub")
    (root / "h/repo").symlink_to(".git")
    (root / "h/venv").symlink_to(".venv")
    assert names("h") == ["h/z.md", "h/a.md", "h/sub/b.md"]


def test_the_folder_itself_may_be_a_link(tree):
    root = tree("real/a.md", "real/sub/b.md")
    (root / "h").symlink_to("real")
    (root / "real/loop").symlink_to(root / "h")
    assert names("h") == ["h/a.md", "h/sub/b.md"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_is_left_out(tree):
    root = tree("h/a.md")
    os.mkfifo(root / "h/pipe.md")
    skipped = []
    assert names("h", on_skip=lambda path, reason: skipped.append((path.name, reason))) == ["h/a.md"]
    assert skipped == [("pipe.md", "a pipe, socket or device")]


def test_a_folder_that_cannot_be_read_is_told_of_and_the_others_are_walked(tree, monkeypatch, caplog):
    tree("h/a/x.md", "h/b/y.md")
    real = os.scandir

    def scandir(path):  # chmod would not keep root from reading
        if os.fspath(path).endswith("a"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path)

    monkeypatch.setattr(folder_module.os, "scandir", scandir)
    errors = []
    assert names("h", on_error=lambda path, error: errors.append((path.as_posix(), error))) == ["h/b/y.md"]
    ((path, error),) = errors
    assert path == "h/a"
    assert isinstance(error, LoaderError)
    assert "'h/a': the folder cannot be read: Permission denied" in str(error)
    assert not caplog.records
    assert names("h") == ["h/b/y.md"]
    assert "h/a" in caplog.text


def test_what_is_no_folder_is_refused_at_once(tree):
    tree("a.md")
    with pytest.raises(SourceNotFoundError, match="no such folder"):
        walk("missing")
    with pytest.raises(SourceNotFoundError, match="it is a file"):
        walk("a.md")


def test_no_tree_is_too_deep(tree):
    tree("h/a.md")
    folders = ["h" + "/d" * depth for depth in range(1, 1050)]
    for folder in folders:
        Path(folder).mkdir()
    deepest = Path(folders[-1], "b.md")
    deepest.write_text("deep")
    try:
        assert [path.name for path in walk("h")] == ["a.md", "b.md"]
    finally:  # removing a tree, as pytest does, takes a level of Python's stack for each folder
        deepest.unlink()
        for folder in reversed(folders):
            Path(folder).rmdir()


@pytest.mark.skipif(os.name == "nt", reason="names are bytes on POSIX only")
def test_names_of_any_bytes_are_found(tree):
    root = tree()
    for name in [b"\xff.md", b"two\nlines.md", b" space .md", b"*.md", b"[a].md", b"!x.md"]:
        (root / os.fsdecode(name)).write_bytes(b"x")
    found = list(walk(".", include=["*.md"]))
    assert sorted(os.fsencode(path.name) for path in found) == sorted(
        [b"\xff.md", b"two\nlines.md", b" space .md", b"*.md", b"[a].md", b"!x.md"]
    )
    assert all(load_file(path).documents[0].content == "x" for path in found)
