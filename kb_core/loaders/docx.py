"""Word documents: paragraphs, tables and notes in reading order.

python-docx opens the package; its `paragraph.text` is not used, since it leaves out content controls, tracked
insertions and text boxes.
"""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from kb_core.errors import LoaderError
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits, TextBuilder

_MAX_PARTS = 10_000
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0"
_XML_ENDINGS = (".xml", ".rels")
_NOTES = ("/footnotes", "/endnotes")
# Properties hold tab stops that look like tabs; deleted and moved text is gone; a fallback repeats a text box.
_SKIPPED = frozenset({"pPr", "rPr", "tblPr", "sectPr", "del", "moveFrom", "Fallback", "instrText"})
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def load_docx(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a .docx: body, text boxes, foot- and endnotes, with the title in the metadata.

    Paragraphs are set apart by a blank line, items of a list and rows of a table by a line end, cells by ` | `.
    """
    del suffix
    _check_archive(data, limits)
    import docx

    document = docx.Document(io.BytesIO(data))
    text = TextBuilder(limits.max_chars)
    body = _Body(text)
    body.read(document.element.body)
    for notes in _notes(document):
        body.read(notes)
    title = (document.core_properties.title or "").strip()
    return Extracted([ExtractedText(str(text), {"title": title} if title else {})])


def _check_archive(data: bytes, limits: Limits) -> None:
    """Refuse what would unpack to too much, by the sizes that the archive states: zipfile unpacks no more."""
    if not data:
        raise LoaderError("it is empty (0 bytes)")
    if data.startswith(_OLE_SIGNATURE):
        raise LoaderError("it is no .docx but an old .doc, or protected by a password")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise LoaderError(f"it is damaged or no .docx ({error})") from error
    if len(parts) > _MAX_PARTS:
        raise LoaderError(f"it holds {len(parts):,} parts; the most that is read are {_MAX_PARTS:,}")
    n_xml = sum(part.file_size for part in parts if part.filename.lower().endswith(_XML_ENDINGS))
    n_all = sum(part.file_size for part in parts)
    # Pictures hardly shrink, so an honest file of the largest size unpacks to about that size beside its XML.
    if n_xml > limits.max_bytes or n_all > 2 * limits.max_bytes:
        raise LoaderError(f"it would unpack to {n_all:,} bytes, {n_xml:,} of them XML; limit {limits.max_bytes:,}")


def _notes(document: Any) -> Iterator[Any]:
    from docx.oxml import parse_xml

    for relation in document.part.rels.values():
        if not relation.is_external and relation.reltype.endswith(_NOTES):
            yield parse_xml(relation.target_part.blob)


class _Body:
    """Walks WordprocessingML by start and end of elements, so that no depth of nesting is too deep."""

    def __init__(self, text: TextBuilder) -> None:
        self._text = text
        self._paragraphs: list[list[str]] = []
        self._cell: list[str] = []
        self._row: list[str] = []
        self._n_tables = 0
        self._follows = ""

    def read(self, root: Any) -> None:
        from lxml import etree

        walker = etree.iterwalk(root, events=("start", "end"))
        for event, element in walker:
            name = etree.QName(element).localname
            if event == "end":
                self._end(name, element)
            elif name in _SKIPPED:
                walker.skip_subtree()
            else:
                self._start(name, element)

    def _start(self, name: str, element: Any) -> None:
        if name == "tbl":
            self._n_tables += 1
        elif name == "p":
            self._paragraphs.append([])
        elif self._paragraphs and name == "t":
            self._paragraphs[-1].append(element.text or "")
        elif self._paragraphs and name in _BREAKS:
            self._paragraphs[-1].append(_BREAKS[name])

    def _end(self, name: str, element: Any) -> None:
        if name == "p":
            self._end_paragraph(element)
        elif name == "tc" and self._n_tables == 1:
            self._row.append(" ".join(self._cell))
            self._cell = []
        elif name == "tr" and self._n_tables == 1:
            self._add(" | ".join(self._row).strip(" |"), "row")
            self._row = []
        elif name == "tbl":
            self._n_tables -= 1
            if not self._n_tables:
                self._follows = ""

    def _end_paragraph(self, element: Any) -> None:
        paragraph = "".join(self._paragraphs.pop()).strip()
        if not paragraph:
            return
        if self._n_tables:
            self._cell.append(paragraph)
        else:
            self._add(paragraph, "item" if _is_list_item(element) else "")

    def _add(self, block: str, kind: str) -> None:
        if block:
            self._text.add(block, "\n" if kind and kind == self._follows else "\n\n")
            self._follows = kind


def _is_list_item(paragraph: Any) -> bool:
    style = paragraph.find("{*}pPr/{*}pStyle")
    is_list_style = style is not None and any(value.startswith("List") for value in style.attrib.values())
    return is_list_style or paragraph.find("{*}pPr/{*}numPr") is not None
