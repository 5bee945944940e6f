"""Makers of real files: small PDFs and Word documents."""

import io
import re
import zipfile
import zlib

import pytest


def _pdf(pages, *, content=None):
    """A PDF of one text line a page; `content` is used as the content stream of every page instead."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids),
        font,
    ]
    for i, text in enumerate(pages):
        stream = content if content is not None else b"BT /F1 12 Tf 72 720 Td (%s) Tj ET" % text.encode("cp1252")
        packed = zlib.compress(stream)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * i)
        )
        head = b"<< /Filter /FlateDecode /Length %d >>" % len(packed)
        objects.append(head + b"\nstream\n" + packed + b"\nendstream")
    out, offsets = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return (
        out
        + b"xref\n0 %d\n0000000000 65535 f \n" % size
        + table
        + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    )


@pytest.fixture
def make_pdf():
    return _pdf


@pytest.fixture(scope="session")
def make_pdf_once():
    """One PDF of two pages, for property tests."""
    return _pdf(["Returns within 30 days.", "Shipping is free."])


@pytest.fixture
def make_docx():
    """A Word document whose body is the given WordprocessingML (or the default), written by python-docx."""

    def make(build=None, *, body=None, document_head="", parts=()):
        import docx

        document = docx.Document()
        if build is not None:
            build(document)
        buffer = io.BytesIO()
        document.save(buffer)
        if body is None and not document_head and not parts:
            return buffer.getvalue()
        changed = io.BytesIO()
        with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "word/document.xml":
                    if body is not None:
                        data = re.sub(
                            rb"(<w:body>).*(</w:body>)", lambda m: m[1] + body.encode() + m[2], data, flags=re.DOTALL
                        )
                    data = re.sub(rb"(<\?xml[^>]*\?>)", lambda m: m[1] + document_head.encode(), data)
                new.writestr(name, data)
            for name, data in parts:
                new.writestr(name, data)
        return changed.getvalue()

    return make
