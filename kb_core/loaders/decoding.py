"""Text from bytes whose encoding may be stated, guessed or broken. No character is dropped without a word.

The order: byte order mark, UTF-8, what the file itself states (an HTML meta tag, an XML declaration, Python's coding
cookie), UTF-16 by its pattern of zeros, charset-normalizer, and at last Windows-1252. A statement comes after UTF-8
because text that is valid UTF-8 by accident is rare, and pages whose statement is outdated are common.
"""

import codecs
import re
from dataclasses import dataclass

REPLACEMENT = "\ufffd"

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# Labels that stand for a larger encoding in practice, https://encoding.spec.whatwg.org/#names-and-labels.
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}

# UTF-8 and UTF-16 have been tried by then; "idna" and "punycode" take quadratic time.
_NEVER_STATED = re.compile(r"utf|idna|punycode|unicode.escape|undefined|mbcs|oem", re.IGNORECASE)

# What WHATWG's legacy encodings are to Python; in order of preference where nothing else decides.
_LEGACY = [
    "cp1252", "cp1251", "cp1250", "cp949", "gb18030", "big5", "cp932", "euc_jp", "koi8_r", "cp1253", "cp1254", "cp1255",
    "cp1256", "cp1257", "cp1258", "cp874", "iso8859_5", "iso8859_2",
]  # fmt: skip
_LATIN = {"cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859_2"}
_UNDEFINED_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_SYMBOL_INSIDE_WORD = re.compile(r"[^\W\d_][¡-©«¬®-¶¸¹»-¿€‚ƒ„†‡ˆ‰‹•˜™›][^\W\d_]")
_SAMPLE_BYTES = 64 * 1024


@dataclass(frozen=True)
class DecodedText:
    """Text with how it was read.

    Attributes:
        text: With line feeds as line ends.
        encoding: Python's name of the codec, `"utf-8"` also where there was a byte order mark.
        is_guessed: Nothing in the file states the encoding.
        n_replaced: Characters that could not be decoded and became U+FFFD.
        n_padding: NUL bytes at the end that were left out.
    """

    text: str
    encoding: str
    is_guessed: bool = False
    n_replaced: int = 0
    n_padding: int = 0

    @property
    def metadata(self) -> dict[str, str]:
        """The encoding, where it is not UTF-8."""
        return {} if self.encoding == "utf-8" else {"encoding": self.encoding}

    @property
    def warnings(self) -> list[str]:
        """What a person should know about the reading."""
        warnings = []
        if self.is_guessed:
            warnings.append(f"read as {self.encoding}, which is a guess")
        if self.n_replaced:
            warnings.append(f"{self.n_replaced} characters are not valid {self.encoding} and were replaced by U+FFFD")
        if self.n_padding:
            warnings.append(f"{self.n_padding} NUL bytes at the end were left out")
        return warnings


def decode(data: bytes, stated: str | None = None) -> DecodedText:
    """Decode a file.

    Args:
        data: All of it.
        stated: The encoding that the file names, see `stated_in_html`, `stated_in_xml`, `stated_in_python`.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    encoding_by_zeros = utf16_without_mark(data)
    if encoding_by_zeros:
        return _decoded(data, encoding_by_zeros, is_guessed=True)
    unpadded = data.rstrip(b"\0")
    n_padding = len(data) - len(unpadded)
    codec = _codec(stated)
    if codec and codec.startswith("iso2022") and b"\x1b" in unpadded:  # seven bits: always valid UTF-8, never meant so
        return _decoded(unpadded, codec, n_padding=n_padding)
    if _is_utf8(unpadded):
        return _decoded(unpadded, "utf-8", n_padding=n_padding)
    if codec:
        return _decoded(unpadded, codec, n_padding=n_padding)
    return _decoded(unpadded, _guess(unpadded), is_guessed=True, n_padding=n_padding)


def stated_in_html(data: bytes) -> str | None:
    """Find the encoding that an HTML file names in its first 4 KB; HTML asks for it in the first 1,024 bytes."""
    match = re.search(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", data[:4096], re.IGNORECASE)
    return match[1].decode("ascii", "replace") if match else stated_in_xml(data)


def stated_in_xml(data: bytes) -> str | None:
    """Find the encoding in an XML declaration."""
    match = re.match(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""", data[:512])
    return match[1].decode("ascii", "replace") if match else None


def stated_in_python(data: bytes) -> str | None:
    """Find the coding cookie of a source file (PEP 263): a comment in the first or second line."""
    for line in data[:2048].splitlines()[:2]:
        match = re.match(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", line)
        if match:
            return match[1].decode("ascii", "replace")
    return None


def utf16_without_mark(data: bytes) -> str | None:
    """Recognise UTF-16 without a mark by its zeros: in Latin text, nearly every second byte is one."""
    head = data[:4096]
    n_pairs = len(head) // 2
    if n_pairs < 8 or len(data) % 2:
        return None
    share_even, share_odd = head[0::2].count(0) / n_pairs, head[1::2].count(0) / n_pairs
    if share_odd > 0.7 and share_even < 0.05:
        return "utf-16-le"
    if share_even > 0.7 and share_odd < 0.05:
        return "utf-16-be"
    return None


def _decoded(data: bytes, encoding: str, *, is_guessed: bool = False, n_padding: int = 0) -> DecodedText:
    n_replaced = 0
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        n_there = data.count(REPLACEMENT.encode()) if encoding.startswith("utf-8") else 0
        n_replaced = text.count(REPLACEMENT) - n_there
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    return DecodedText(text, name, is_guessed, n_replaced, n_padding)


def _is_utf8(data: bytes) -> bool:
    """Tell whether this is UTF-8, a few damaged places allowed: at most one for each ten characters beyond ASCII."""
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        n_damaged = text.count(REPLACEMENT)
        n_beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
        return n_damaged * 10 <= n_beyond_ascii - n_damaged
    return True


def _codec(stated: str | None) -> str | None:
    """Give the codec for a stated encoding; None for one that does not exist, is no text encoding or is no help."""
    if not stated or _NEVER_STATED.match(stated):
        return None
    try:
        name = codecs.lookup(stated).name
        b"a".decode(name)
    except (LookupError, ValueError):
        return None
    return None if _NEVER_STATED.match(name) else _SUPERSETS.get(name, name)


def _guess(data: bytes) -> str:
    """Guess a legacy encoding from the lines that are not ASCII.

    charset-normalizer tells scripts and CJK encodings apart well, but among code pages for Latin letters it takes
    cp1250 for most short texts (French "à" becomes "ŕ"). There Windows-1252, by far the most frequent, wins unless it
    puts symbols inside words or the letters of the other make a better language.
    """
    import charset_normalizer

    sample = _telling_lines(data)
    best = charset_normalizer.from_bytes(sample, cp_isolation=_LEGACY).best()
    if best is None:
        return "cp1252"
    found = codecs.lookup(best.encoding).name
    # Half-width katakana are single bytes: where nothing else shows Japanese, they are symbols such as the degree sign.
    is_without_kanji = best.encoding == "cp932" and len(str(best)) == len(sample)
    if best.encoding not in _LATIN and not is_without_kanji:
        return found
    western_sample = sample.translate(None, delete=_UNDEFINED_IN_CP1252)
    n_symbols = len(_SYMBOL_INSIDE_WORD.findall(western_sample.decode("cp1252")))
    n_beyond_ascii = len(western_sample) - len(western_sample.decode("ascii", "ignore"))
    if n_symbols * 10 > n_beyond_ascii:
        return found
    western = charset_normalizer.from_bytes(western_sample, cp_isolation=["cp1252"]).best()
    western_coherence = western.coherence if western else 0.0
    return found if best.coherence > western_coherence + 0.1 else "cp1252"


def _telling_lines(data: bytes) -> bytes:
    sample = bytearray()
    for line in data.splitlines(keepends=True):
        if not line.isascii():
            sample += line[:_SAMPLE_BYTES]
        if len(sample) >= _SAMPLE_BYTES:
            break
    return bytes(sample)
