import io
import zipfile

import pytest

from kb_core.errors import LoaderError
from kb_core.loaders import Limits, load_file

W = '<w:p><w:r><w:t xml:space="preserve">{}</w:t></w:r></w:p>'


def load(tmp_path, data, **options):
    path = tmp_path / "a.docx"
    path.write_bytes(data)
    return load_file(path, source="a.docx", **options)


def reason(tmp_path, data, **options):
    with pytest.raises(LoaderError) as caught:
        load(tmp_path, data, **options)
    return str(caught.value)


def test_a_document_gives_headings_paragraphs_lists_and_tables_in_order(tmp_path, make_docx):
    def build(document):
        document.core_properties.title = "Handbook"
        document.add_heading("Returns", 1)
        document.add_paragraph("You have 30 days.").add_run("\tGrüße ✓")
        document.add_paragraph("Shoes", style="List Bullet")
        document.add_paragraph("Hats", style="List Bullet")
        table = document.add_table(2, 2)
        for cell, text in zip(table._cells, ["Item", "Price", "Hat", "5 €"], strict=True):
            cell.text = text
        document.add_paragraph("")
        document.add_paragraph("Bye.")

    (document,) = load(tmp_path, make_docx(build)).documents
    assert document.content == (
        "Returns\n\nYou have 30 days.\tGrüße ✓\n\nShoes\nHats\n\nItem | Price\nHat | 5 €\n\nBye."
    )
    assert document.metadata == {"title": "Handbook", "file_name": "a.docx", "file_type": ".docx"}


def test_content_controls_insertions_and_links_are_read_and_deletions_are_not(tmp_path, make_docx):
    body = (
        "<w:sdt><w:sdtContent>" + W.format("In a control.") + "</w:sdtContent></w:sdt>"
        "<w:p><w:pPr><w:tabs><w:tab w:val='left' w:pos='1'/></w:tabs></w:pPr>"
        "<w:r><w:t xml:space='preserve'>Pay </w:t></w:r><w:ins w:id='1' w:author='a'><w:r><w:t>60</w:t></w:r></w:ins>"
        "<w:del w:id='2' w:author='a'><w:r><w:delText>30</w:delText></w:r></w:del>"
        "<w:hyperlink><w:r><w:t xml:space='preserve'> euros</w:t></w:r></w:hyperlink>"
        "<w:r><w:br/><w:t>soon</w:t></w:r></w:p>"
    )
    assert load(tmp_path, make_docx(body=body)).documents[0].content == "In a control.\n\nPay 60 euros\nsoon"


def test_a_text_box_is_read_once(tmp_path, make_docx):
    box = "<w:txbxContent>" + W.format("In a box.") + "</w:txbxContent>"
    body = (
        '<w:p xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:r><w:t>Around.</w:t>'
        f"<mc:AlternateContent><mc:Choice Requires='wps'>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    )
    assert load(tmp_path, make_docx(body=body)).documents[0].content == "In a box.\n\nAround."


def test_a_table_in_a_cell_is_read_as_part_of_that_cell(tmp_path, make_docx):
    def build(document):
        table = document.add_table(1, 2)
        table.cell(0, 0).text = "outer"
        inner = table.cell(0, 1).add_table(1, 2)
        inner.cell(0, 0).text, inner.cell(0, 1).text = "in", "side"

    assert load(tmp_path, make_docx(build)).documents[0].content == "outer | in side"


def test_footnotes_are_read_after_the_body(tmp_path, make_docx):
    good = make_docx(body=W.format("Body."))
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    notes = f'<w:footnotes xmlns:w="{namespace}"><w:footnote w:id="2">{W.format("A note.")}</w:footnote></w:footnotes>'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "word/_rels/document.xml.rels":
                relation = f'<Relationship Id="rIdN" Type="{kind}" Target="footnotes.xml"/></Relationships>'
                data = data.replace(b"</Relationships>", relation.encode())
            new.writestr(name, data)
        new.writestr("word/footnotes.xml", notes)
    assert load(tmp_path, changed.getvalue()).documents[0].content == "Body.\n\nA note."


def test_what_is_no_docx_is_refused_by_name_with_a_reason(tmp_path, make_docx):
    good = make_docx(body=W.format("x"))
    assert "'a.docx': it is empty (0 bytes)" in reason(tmp_path, b"")
    assert "damaged or no .docx" in reason(tmp_path, b"just text")
    assert "damaged or no .docx" in reason(tmp_path, good[:-100])
    assert "old .doc, or protected by a password" in reason(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 100)
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("hello.txt", "hi")
    assert "damaged" in reason(tmp_path, other.getvalue())
    assert "damaged" in reason(tmp_path, good.replace(b"word/document.xml", b"word/d0cument.xml"))


@pytest.mark.parametrize(
    ("name", "n_mb", "limits"),
    [
        ("word/document.xml", 110, Limits()),
        ("word/extra.XML", 3, Limits(max_bytes=2_000_000)),
        ("word/media/image1.png", 5, Limits(max_bytes=2_000_000)),
    ],
)
def test_an_archive_that_would_unpack_to_too_much_is_refused_unopened(tmp_path, name, n_mb, limits):
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w") as part,
    ):
        for _ in range(n_mb):
            part.write(b"\0" * 1_000_000)
    assert len(bomb.getvalue()) < 1_000_000
    assert f"would unpack to {n_mb},000,000 bytes" in reason(tmp_path, bomb.getvalue(), limits=limits)


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path, make_docx):
    data = bytearray(make_docx(body=W.format("x" * 100_000)))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo("word/document.xml")
    true_size = info.file_size.to_bytes(4, "little")
    assert data.count(true_size) >= 2
    lie = bytes(data).replace(true_size, (50).to_bytes(4, "little"))
    assert "damaged" in reason(tmp_path, lie)


def test_an_archive_of_very_many_parts_is_refused(tmp_path):
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), b"")
    assert "10,001 parts" in reason(tmp_path, many.getvalue())


def test_entities_are_not_expanded(tmp_path, make_docx):
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    head = f'<!DOCTYPE w:document [<!ENTITY l0 "ha">{laughs}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    body = "<w:p><w:r><w:t>before &l9;&f; after</w:t></w:r></w:p>" + W.format("rest")
    try:
        content = load(tmp_path, make_docx(body=body, document_head=head)).documents[0].content
    except LoaderError:
        return
    assert "ha" not in content
    assert "root:" not in content


def test_deep_nesting_ends_in_a_reason(tmp_path, make_docx):
    body = "<w:sdt><w:sdtContent>" * 5000 + W.format("deep") + "</w:sdtContent></w:sdt>" * 5000
    assert "damaged" in reason(tmp_path, make_docx(body=body))


def test_text_beyond_the_limit_is_refused(tmp_path, make_docx):
    assert "longer than 10 characters" in reason(
        tmp_path, make_docx(body=W.format("123456") * 2), limits=Limits(max_chars=10)
    )
