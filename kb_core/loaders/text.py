"""Plain text: prose, markup, source code, configuration, and whatever else turns out to be text."""

from kb_core.errors import UnsupportedFormatError
from kb_core.loaders.decoding import decode, stated_in_python, stated_in_xml, utf16_without_mark
from kb_core.loaders.loaded import Extracted, ExtractedText, Limits

SNIFFED_BYTES = 8192
"""How much of a file tells text from binary; the figure and the NUL rule are those of git (`buffer_is_binary`)."""

_UTF16_AND_32_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_BINARY_SIGNATURES = (
    b"%PDF-", b"PK\x03\x04", b"{\\rtf", b"\x7fELF", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b", b"BZh",
    b"\xfd7zXZ", b"\xd0\xcf\x11\xe0", b"SQLite format 3", b"\xca\xfe\xba\xbe", b"MZ\x90", b"OggS", b"ID3",
)  # fmt: skip
# Control characters but for NUL, which pads, and tab, line feed, form feed, carriage return, backspace and escape. In
# compressed or random data they are a tenth of all bytes.
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\0\t\n\f\r\b\x1b"))


def is_binary(head: bytes, *, is_named_text: bool) -> bool:
    """Tell whether a file is something else than text.

    Args:
        head: Its first `SNIFFED_BYTES`, or all.
        is_named_text: Its suffix says that it is text. Then NULs are damage or padding, as in exported tables, and only
            many other control characters make it binary; else one NUL does.
    """
    if head.startswith(_BINARY_SIGNATURES):
        return True
    if head.startswith(_UTF16_AND_32_MARKS) or utf16_without_mark(head[: len(head) // 2 * 2]):
        return False
    if not is_named_text:
        return b"\0" in head
    n_control = len(head) - len(head.translate(None, delete=_CONTROL_BYTES))
    return n_control * 20 > len(head) - head.count(0) and n_control > 4


def load_text(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a text whose suffix says so. Line ends become line feeds; nothing else changes."""
    del limits  # a text has no more characters than the file has bytes
    refuse_binary(data, is_named_text=True)
    stated = stated_in_python(data) if suffix in {".py", ".pyi", ".pyx"} else stated_in_xml(data)
    decoded = decode(data, stated)
    return Extracted([ExtractedText(decoded.text, dict(decoded.metadata))], decoded.warnings)


def load_unknown(data: bytes, suffix: str, limits: Limits) -> Extracted:
    """Read a file without a known suffix, as text if that is what it holds."""
    refuse_binary(data, is_named_text=False)
    return load_text(data, suffix, limits)


def refuse_binary(data: bytes, *, is_named_text: bool) -> None:
    """Raise `UnsupportedFormatError` for what is not text, see `is_binary`."""
    if is_binary(data[:SNIFFED_BYTES], is_named_text=is_named_text):
        raise UnsupportedFormatError("it is a binary file, and no loader reads this kind")
