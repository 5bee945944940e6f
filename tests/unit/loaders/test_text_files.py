import os
import subprocess
import sys
from pathlib import Path

import pytest

from kb_core.errors import LoaderError, SourceNotFoundError, UnsupportedFormatError
from kb_core.loaders import Limits, load_file
from kb_core.loaders import reading as reading_module


def load(path, data, **options):
    path.write_bytes(data)
    return load_file(path, **options)


def content(path, data):
    return load(path, data).documents[0].content


def test_a_utf8_text_comes_whole_with_name_type_and_given_metadata(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "Guide.MD").write_text("# Title\n\n中文 ✓\n", encoding="utf-8")
    loaded = load_file("./docs/Guide.MD", metadata={"lang": "zh"})
    (document,) = loaded.documents
    assert document.content == "# Title\n\n中文 ✓\n"
    assert loaded.source == document.source == "docs/Guide.MD"
    assert document.metadata == {"file_name": "Guide.MD", "file_type": ".md", "lang": "zh"}
    assert document.id == ""
    assert loaded.warnings == []


def test_given_metadata_goes_before_what_the_loader_finds(tmp_path):
    assert load(tmp_path / "a.txt", b"x", metadata={"file_type": "note"}).documents[0].metadata["file_type"] == "note"


def test_a_source_can_be_given(tmp_path):
    assert load(tmp_path / "a.txt", b"x", source="policy").documents[0].source == "policy"


def test_metadata_that_cannot_be_kept_is_the_callers_error(tmp_path):
    with pytest.raises(TypeError, match="object"):
        load(tmp_path / "a.txt", b"x", metadata={"k": object()})


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"])
def test_line_ends_of_every_system_become_line_feeds(tmp_path, line_end):
    assert content(tmp_path / "a.txt", f"a{line_end}{line_end}b".encode()) == "a\n\nb"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides(tmp_path, encoding):
    loaded = load(tmp_path / "a.txt", "Grüße, мир, 世界".encode(encoding))
    assert loaded.documents[0].content == "Grüße, мир, 世界"
    assert loaded.warnings == []
    assert loaded.documents[0].metadata.get("encoding", "utf-8") == encoding.removesuffix("-sig")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised(tmp_path, encoding):
    loaded = load(tmp_path / "a.txt", "A plain Windows text, saved as Unicode".encode(encoding))
    assert loaded.documents[0].content == "A plain Windows text, saved as Unicode"
    assert loaded.documents[0].metadata["encoding"] == encoding


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("©®™", "cp1252"),
        ("Acme© Widget® Tool™", "cp1252"),
        ("Le café est fermé à Noël, désolé.", "cp1252"),
        ("Voilà où nous étions, près de la forêt; ça va très bien, là-bas.", "cp1252"),
        ("Größe und Übermaß: Bären mögen Käse.", "cp1252"),
        ("It’s a “quoted” text – really…", "cp1252"),
        ("¿Qué pasó mañana? ¡Año nuevo! 20 €", "cp1252"),
        ("Temperature 20° ± 5 µm, ½ cup", "cp1252"),
        ("Ärliga blåbär på ön, så är det här året.", "cp1252"),
        ("Привет, мир! Это проверка.", "cp1251"),
        ("Привет, мир! Это проверка кодировки в тексте программы.", "iso8859-5"),
        ("Привет, мир! Это проверка.", "koi8-r"),
        ("안녕하세요 세계. 이것은 시험입니다.", "cp949"),
        ("한국어 문서입니다. 똠방각하", "cp949"),
        ("これは日本語のテストです。漢字も。", "cp932"),
        ("これは日本語のテストです。漢字も。", "euc_jp"),
        ("你好世界，这是一个测试。", "gb18030"),
        ("你好世界，這是一個測試。", "big5"),
        ("Zażółć gęślą jaźń. Cały świat śpi.", "cp1250"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Καλημέρα κόσμε, τι κάνεις;", "cp1253"),
    ],
)
def test_a_legacy_encoding_is_guessed_right_and_noted(tmp_path, text, encoding):
    loaded = load(tmp_path / "a.txt", text.encode(encoding))
    assert loaded.documents[0].content == text
    assert loaded.documents[0].metadata["encoding"] == encoding
    assert loaded.warnings == [f"{str(tmp_path / 'a.txt')!r}: read as {encoding}, which is a guess"]


def test_a_byte_that_windows_1252_does_not_have_is_replaced_counted_and_warned_of(tmp_path):
    loaded = load(tmp_path / "a.txt", "Le café est fermé ".encode("cp1252") + b"\x9d fin")
    assert loaded.documents[0].content == "Le café est fermé \ufffd fin"
    assert loaded.documents[0].metadata["encoding"] == "cp1252"
    assert any("1 characters are not valid cp1252" in warning for warning in loaded.warnings)


def test_a_damaged_place_in_a_utf8_file_does_not_make_it_another_encoding(tmp_path):
    data = ("Größe und Übermaß, " * 20).encode()
    loaded = load(tmp_path / "a.txt", data[:100] + b"\xff" + data[100:])
    assert loaded.documents[0].content.count("ß") == 40
    assert loaded.documents[0].content.count("\ufffd") == 1
    assert any("1 characters are not valid utf-8" in warning for warning in loaded.warnings)


def test_replacement_characters_that_the_file_itself_has_are_not_counted(tmp_path):
    assert load(tmp_path / "a.txt", "was \ufffd before".encode()).warnings == []


def test_a_text_beyond_ascii_far_behind_is_still_seen(tmp_path):
    loaded = load(tmp_path / "a.txt", b"plain ascii line\n" * 20_000 + "Привет, мир! Это проверка.".encode("cp1251"))
    assert loaded.documents[0].content.endswith("Привет, мир! Это проверка.")


@pytest.mark.parametrize(
    "cookie", ["# -*- coding: iso-8859-5 -*-", "#!/usr/bin/python\n# vim: set fileencoding=iso-8859-5 :"]
)
def test_a_python_file_is_read_by_its_coding_cookie(tmp_path, cookie):
    text = f"{cookie}\nname = 'Ж'\n"
    loaded = load(tmp_path / "a.py", text.encode("iso-8859-5"))
    assert loaded.documents[0].content == text
    assert loaded.documents[0].metadata["encoding"] == "iso8859-5"
    assert loaded.warnings == []


@pytest.mark.parametrize("cookie", ["nonsense", "hex", "idna", "punycode", "unicode_escape", "utf-16"])
def test_a_cookie_that_names_no_usable_encoding_is_passed_over(tmp_path, cookie):
    loaded = load(tmp_path / "a.py", f"# coding: {cookie}\n# café".encode("cp1252"))
    assert loaded.documents[0].content.endswith("# café")


def test_xml_is_read_by_its_declaration(tmp_path):
    text = "<?xml version='1.0' encoding='ISO-8859-2'?><p>ź</p>"
    assert content(tmp_path / "a.xml", text.encode("iso-8859-2")) == text


def test_nul_characters_in_a_text_are_replaced_one_for_one(tmp_path):
    loaded = load(tmp_path / "a.txt", b"a\x00b")
    assert loaded.documents[0].content == "a\ufffdb"
    assert "1 NUL characters or lone surrogates were replaced by U+FFFD" in loaded.warnings[0]


def test_nul_padding_at_the_end_is_left_out_and_warned_of(tmp_path):
    loaded = load(tmp_path / "a.txt", b"text" + b"\0" * 10_000)
    assert loaded.documents[0].content == "text"
    assert "10000 NUL bytes at the end" in loaded.warnings[0]


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\0\0\0", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.json", "a.jsonl", "a.html"])
def test_a_file_without_text_gives_a_blank_document(tmp_path, name, data):
    (document,) = load(tmp_path / name, data).documents
    assert document.content.strip() == ""


@pytest.mark.parametrize("name", ["README", "Makefile", "LICENSE", "notes.2024", "x.unknown"])
def test_a_text_without_a_known_suffix_is_read(tmp_path, name):
    assert content(tmp_path / name, b"some text") == "some text"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n"),
        ("A.XLSX", b"PK\x03\x04"),
        ("a.zip", b"text in fact"),
        ("noname", b"text\0with a nul"),
        ("a.unknown", bytes(range(256))),
        ("a.txt", bytes(range(256)) * 10),
        ("a.txt", b"%PDF-1.4\n1 0 obj"),
        ("a.md", b"PK\x03\x04 and more"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\0\0"),
        ("a.json", b"\x1f\x8b\x08"),
        ("a.html", b"\x7fELF\x02"),
    ],
)
def test_a_binary_file_is_refused_by_name_and_kind(tmp_path, name, data):
    with pytest.raises(UnsupportedFormatError, match=name):
        load(tmp_path / name, data)


def test_what_is_not_there_is_said_before_its_kind(tmp_path):
    (tmp_path / "file").touch()
    for name in ["a.txt", "a.xlsx", "none/a.pdf", "file/a.txt", "a\0b.txt", "x" * 300]:
        with pytest.raises(SourceNotFoundError) as caught:
            load_file(tmp_path / name)
        assert isinstance(caught.value, FileNotFoundError)


def test_a_link_to_nothing_and_a_link_in_a_circle_are_named(tmp_path):
    (tmp_path / "a.txt").symlink_to("nowhere.txt")
    (tmp_path / "b.txt").symlink_to("b.txt")
    with pytest.raises(SourceNotFoundError, match="link to nothing"):
        load_file(tmp_path / "a.txt")
    with pytest.raises(LoaderError, match=r"b\.txt"):
        load_file(tmp_path / "b.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.xlsx"])
def test_a_fifo_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(LoaderError, match="pipe"):
        load_file(tmp_path / name)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(LoaderError, match="folder"):
        load_file(tmp_path)


def test_a_file_beyond_the_size_limit_is_refused_with_the_limit(tmp_path):
    with pytest.raises(LoaderError, match="larger than 10 bytes"):
        load(tmp_path / "a.txt", b"x" * 11, limits=Limits(max_bytes=10))
    assert load(tmp_path / "a.txt", b"x" * 10, limits=Limits(max_bytes=10)).documents[0].content == "x" * 10


def test_a_huge_sparse_file_is_refused_without_being_read(tmp_path):
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(LoaderError, match="larger than"):
        load_file(tmp_path / "a.txt")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_that_says_it_is_empty_and_is_not_is_read():
    assert "Pid:" in load_file("/proc/self/status").documents[0].content


def test_a_very_long_line_is_read(tmp_path):
    line = "word " * 2_000_000
    assert content(tmp_path / "a.txt", line.encode()) == line


def test_a_file_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def refuse(path, flags):  # chmod would not keep root from reading
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setattr(reading_module.os, "open", refuse)
    with pytest.raises(LoaderError, match="Permission denied"):
        load_file(tmp_path / "a.txt")


class _WrittenMeanwhile:
    """Gives the real answers of `os.fstat`, and appends to the file before every second one."""

    def __init__(self, path, n_writes):
        self.path, self.n_writes, self.n_calls = path, n_writes, 0

    def __call__(self, descriptor):
        self.n_calls += 1
        if self.n_calls % 2 == 0 and self.n_writes:
            self.n_writes -= 1
            with self.path.open("ab") as file:
                file.write(b"second part")
        return self.real(descriptor)

    real = staticmethod(os.fstat)


def test_a_file_that_grew_while_it_was_read_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"first part, ")
    monkeypatch.setattr(reading_module.os, "fstat", _WrittenMeanwhile(path, 1))
    assert load_file(path).documents[0].content == "first part, second part"


def test_a_file_that_keeps_growing_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"first part, ")
    monkeypatch.setattr(reading_module.os, "fstat", _WrittenMeanwhile(path, 9))
    with pytest.raises(LoaderError, match="changed while it was being read"):
        load_file(path)


@pytest.mark.skipif(os.name == "nt", reason="names are bytes on POSIX only")
def test_names_of_any_bytes_are_cited_apart(tmp_path):
    sources = set()
    for name in [b"\xff.txt", b"\xfe.txt", "中文.txt".encode(), b"two\nlines.txt", b"with space.txt"]:
        path = tmp_path / os.fsdecode(name)
        path.write_bytes(b"x")
        loaded = load_file(path)
        loaded.source.encode()
        loaded.documents[0].metadata["file_name"].encode()
        sources.add(loaded.source.rpartition("/")[2])
    assert sources == {"\\xff.txt", "\\xfe.txt", "中文.txt", "two\nlines.txt", "with space.txt"}


def test_the_locale_does_not_matter(tmp_path):
    (tmp_path / "中文.md").write_bytes("中文 ✓".encode())
    (tmp_path / "a.csv").write_bytes("名,値\nä,✓\n".encode())
    program = (
        "import json, sys\n"
        "from kb_core.loaders import load_file, walk\n"
        "found = [load_file(path).documents[0] for path in walk('.')]\n"
        "print(json.dumps([[d.source, d.content] for d in found]))\n"
    )
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert run.stderr == b""
    assert run.stdout.decode() == (
        '[["a.csv", "\\u540d: \\u00e4\\n\\u5024: \\u2713"], ["\\u4e2d\\u6587.md", "\\u4e2d\\u6587 \\u2713"]]\n'
    )


def test_importing_the_loaders_imports_no_format_library():
    program = (
        "import sys, kb_core.loaders\n"
        "heavy = {'lxml', 'docx', 'pypdf', 'bs4', 'charset_normalizer', 'pathspec', 'PIL'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
