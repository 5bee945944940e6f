import pytest

from kb_core.errors import LoaderError
from kb_core.loaders import Limits, load_file


def load(tmp_path, html, **options):
    path = tmp_path / "page.html"
    path.write_bytes(html if isinstance(html, bytes) else html.encode())
    return load_file(path, **options)


def text(tmp_path, html):
    return load(tmp_path, html).documents[0].content


def test_a_page_gives_its_visible_text_block_by_block_and_its_title(tmp_path):
    loaded = load(
        tmp_path,
        """<!DOCTYPE html><html><head><title> Returns &amp;
        refunds </title><style>p { color: red }</style><script>var x = "<p>no</p>";</script></head>
        <body><nav><a href="/">Home</a></nav><header><h1>Returns</h1></header>
        <p>You have <b>30</b> days
           to return.<!-- not seen --></p><ul><li>Shoes</li><li>Hats</li></ul>
        <div hidden>secret</div><div style="color:red; DISPLAY: none">secret</div><noscript>Enable JS</noscript>
        <svg><title>icon</title><text>vector</text></svg><p>Bye.<br>Really.</p></body></html>""",
    )
    (document,) = loaded.documents
    assert document.content == "Returns\n\nYou have 30 days to return.\n\nShoes\nHats\n\nBye.\nReally."
    assert document.metadata["title"] == "Returns & refunds"
    assert loaded.warnings == []


def test_rows_of_a_table_are_lines_and_cells_stay_apart(tmp_path):
    html = "<p>Before</p><table><tr><th>Item<th>Price</tr><tr><td>Hat</td><td> 5 € </td></tr></table>After"
    assert text(tmp_path, html) == "Before\n\nItem | Price\nHat | 5 €\n\nAfter"


def test_a_row_that_begins_with_an_empty_cell_has_no_stray_bar_and_real_bars_stay(tmp_path):
    assert text(tmp_path, "<table><tr><td></td><td>a|b</td><td></td></tr></table><p>| x |</p>") == "a|b\n\n| x |"


def test_preformatted_text_keeps_its_white_space(tmp_path):
    html = "<p>Run</p><pre><code>def f():\n    return  1\n</code></pre><p>then   stop</p>"
    assert text(tmp_path, html) == "Run\n\ndef f():\n    return  1\n\nthen stop"


def test_inline_elements_do_not_split_words(tmp_path):
    assert text(tmp_path, "<p>re<b>fun</b>d<i>able</i> <span>now</span></p>") == "refundable now"


def test_a_page_that_a_script_would_show_is_read(tmp_path):
    assert (
        text(tmp_path, '<html hidden><body style="visibility: hidden"><p>shown later</p></body></html>')
        == "shown later"
    )


def test_words_around_what_is_left_out_stay_apart(tmp_path):
    assert text(tmp_path, "<p>one<script>x</script>two</p>") == "one two"


def test_entities_are_resolved_and_unknown_ones_kept(tmp_path):
    assert text(tmp_path, "<p>&lt;b&gt; &eacute; &#20013; &#x2713; &nosuch;</p>") == "<b> é 中 ✓ &nosuch;"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="windows-1251">', "cp1251"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">', "cp932"),
        ("<?xml version='1.0' encoding='iso-8859-7'?>", "iso8859-7"),
        ('<meta charset="iso-8859-1">', "cp1252"),
    ],
)
def test_the_encoding_that_a_page_states_is_used(tmp_path, head, encoding):
    word = {"cp1251": "Привет", "cp932": "日本語", "iso8859-7": "Καλημέρα", "cp1252": "“é”"}[encoding]
    loaded = load(tmp_path, f"{head}<title>t</title><p>{word}</p>".encode(encoding))
    assert loaded.documents[0].content == word
    assert loaded.documents[0].metadata["encoding"] == encoding
    assert loaded.warnings == []


def test_a_stated_encoding_that_is_wrong_does_not_spoil_utf8(tmp_path):
    assert text(tmp_path, '<meta charset="iso-8859-1"><p>Grüße ✓</p>'.encode()) == "Grüße ✓"


def test_seven_bit_japanese_is_read_as_stated(tmp_path):
    html = '<meta charset="iso-2022-jp"><p>日本語</p>'
    assert text(tmp_path, html.encode("iso-2022-jp")) == "日本語"


def test_a_page_without_visible_text_is_blank(tmp_path):
    assert text(tmp_path, "<html><body><script>only()</script></body></html>") == ""


@pytest.mark.parametrize("depth", [300, 100_000])
def test_no_nesting_is_too_deep(tmp_path, depth):
    assert text(tmp_path, "<div>" * depth + "deep" + "</div>" * depth + "<p>after</p>").split() == ["deep", "after"]


def test_broken_markup_still_gives_its_text(tmp_path):
    assert text(tmp_path, "<p>one<p>two</b></div><li>three<td>four < five & six").split() == [
        "one", "two", "three", "four", "<", "five", "&", "six",
    ]  # fmt: skip


def test_nul_characters_do_not_cut_the_page(tmp_path):
    assert text(tmp_path, b"<p>a\0b</p><p>after</p>") == "a\ufffdb\n\nafter"


def test_entities_declared_in_the_page_are_not_expanded(tmp_path):
    bomb = '<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><p>&b; <!ENTITY c SYSTEM "file:///etc/passwd">&c;</p>'
    assert "root:" not in text(tmp_path, bomb)
    assert "haha" not in text(tmp_path, bomb)


def test_a_large_page_is_read_whole(tmp_path):
    paragraph = "word " * 20
    html = f"<p>{paragraph}</p>" * 20_000 + "<pre>" + " " * 1_000_000 + "end</pre>"
    found = text(tmp_path, html)
    assert found.count(paragraph.strip()) == 20_000
    assert found.endswith("end")


def test_a_text_node_beyond_ten_megabytes_is_read_whole(tmp_path):
    assert len(text(tmp_path, "<p>" + "x" * 11_000_000 + "</p>")) == 11_000_000


def test_text_beyond_the_limit_is_refused(tmp_path):
    with pytest.raises(LoaderError, match="longer than 10 characters"):
        load(tmp_path, "<p>12345</p><p>67890</p>", limits=Limits(max_chars=10))
