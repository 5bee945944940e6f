"""HTML: the text that a reader sees, block by block."""

import re

from kb_core.errors import LoaderError
from kb_core.loaders.decoding import decode, stated_in_html
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits, TextBuilder
from kb_core.loaders.text import refuse_binary

# fmt: off
_INVISIBLE = frozenset({
    "script", "style", "noscript", "template", "nav", "svg", "iframe", "object", "canvas", "audio", "video",
    "select", "button", "input", "textarea", "datalist", "dialog", "menu",
})
_PARAGRAPHS = frozenset({
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre", "blockquote", "article", "section",
    "main", "header", "footer", "aside", "figure", "figcaption", "form", "fieldset", "details", "summary", "hr",
    "body",
})
_LINES = frozenset({
    "br", "li", "dt", "dd", "tr", "div", "address", "caption", "legend", "option", "thead", "tbody", "tfoot",
    "center",
})
# fmt: on
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SHOWN_BY_SCRIPTS = frozenset({"html", "body"})  # hidden until the page is laid out, so as not to flicker
# All white space but single blanks, which are right already and by far the most frequent.
_WHITE_SPACE = re.compile(r" *[\t\n\r\f][ \t\n\r\f]*|  +")
_FED_BYTES = 2**16  # at once: libxml2 keeps several copies of what it is given
_CELLS = frozenset({"td", "th"})
_CELL_END = "\x1f"  # the unit separator: no text has it, unlike the bar that is written in its place


def load_html(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read an HTML file: its visible text, with the title in the metadata.

    Scripts, styles, navigation, form controls and hidden elements are left out. Paragraphs, headings, lists and tables
    are set apart by a blank line, list items and rows by a line end, cells by ` | `.
    """
    from lxml import etree

    del suffix
    refuse_binary(data, is_named_text=True)
    decoded = decode(data, stated_in_html(data))
    if not decoded.text.strip():  # lxml refuses nothing
        return Extracted([ExtractedText("", dict(decoded.metadata))], decoded.warnings)
    page = _VisibleText(limits.max_chars)
    # Events instead of a tree: memory stays small, and no depth of nesting is too deep. Fed as UTF-8 bytes, since lxml
    # refuses a str that states an encoding.
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    try:
        encoded = decoded.text.encode("utf-8", "replace")
        for start in range(0, len(encoded), _FED_BYTES):
            parser.feed(encoded[start : start + _FED_BYTES])
        parser.close()
    except etree.LxmlError as error:
        raise LoaderError(f"it is no HTML ({error})") from error
    metadata = dict(decoded.metadata)
    title = page.title
    if title:
        metadata["title"] = title
    return Extracted([ExtractedText(page.text, metadata)], decoded.warnings)


class _VisibleText:
    """Takes parse events, as lxml's parser target, and collects the text."""

    def __init__(self, max_chars: int) -> None:
        self._text = TextBuilder(max_chars)
        self._line: list[str] = []
        self._seam = ""
        self._title: list[str] = []
        self._depth = 0
        self._hidden_since: int | None = None
        self._in_title = False
        self._n_pre = 0

    @property
    def text(self) -> str:
        self._end_line("")
        return str(self._text)

    @property
    def title(self) -> str:
        return _WHITE_SPACE.sub(" ", "".join(self._title)).strip()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._hidden_since is not None:
            return
        if tag in _INVISIBLE or (tag not in _SHOWN_BY_SCRIPTS and _is_hidden(attributes)):
            self._hidden_since = self._depth
            self._line.append(" ")
        elif tag in _CELLS:
            self._line.append(" ")
        elif tag == "title":
            self._in_title = not self._title
        elif tag == "pre":
            self._end_line("\n\n")
            self._n_pre += 1
        else:
            self._block(tag)

    def end(self, tag: str) -> None:
        if self._hidden_since is None:
            if tag == "title":
                self._in_title = False
            elif tag in _CELLS:
                self._line.append(_CELL_END)
            else:
                self._block(tag)
            if tag == "pre":
                self._n_pre = max(0, self._n_pre - 1)
        elif self._hidden_since == self._depth:
            self._hidden_since = None
        self._depth -= 1

    def data(self, text: str) -> None:
        if self._hidden_since is not None:
            return
        (self._title if self._in_title else self._line).append(text)

    def comment(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass

    def _block(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._end_line("\n\n")
        elif tag in _LINES:
            self._end_line("\n")

    def _end_line(self, seam: str) -> None:
        line = "".join(self._line)
        self._line.clear()
        line = line.strip("\n") if self._n_pre else _WHITE_SPACE.sub(" ", line).strip(" ")
        if _CELL_END in line:
            line = " | ".join(cell.strip(" ") for cell in line.strip(f" {_CELL_END}").split(_CELL_END))
        if line:
            self._text.add(line, self._seam)
            self._seam = seam
        elif len(seam) > len(self._seam):
            self._seam = seam


def _is_hidden(attributes: dict[str, str]) -> bool:
    return bool(attributes) and (
        "hidden" in attributes
        or attributes.get("role") == "navigation"
        or bool(_HIDDEN_STYLE.search(attributes.get("style", "")))
    )
