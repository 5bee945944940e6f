"""Metadata values: which ones a document may carry, and how they become JSON and come back unchanged.

The values are those of JSON (None, bool, int, float, str, list, dict with string keys) and `date`, `datetime` and
`Decimal`. What is close to one of them is turned into it at the door: tuples and numpy, pandas or torch arrays into
lists, numpy scalars into Python's, enum members into their value, `UUID` and paths into strings, time zones into the
offset that they have at that time. All else is refused, naming the place and the type, never showing the value.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_INT_BITS = 2048
"""617 digits: within the 640 that every setting of `sys.set_int_max_str_digits` can print."""

_TAG = "$kb"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ACCEPTED = "None, bool, int, float, str, date, datetime, Decimal, list, or dict with str keys"
# The units that numpy gives back as plain integers, because `datetime` ends at microseconds.
_FINER_THAN_DATETIME = ("[ns]", "[ps]", "[fs]", "[as]")


def clean_text(text: str) -> str:
    """Replace what no store can hold (NUL, lone surrogates) with U+FFFD, one for one, so that offsets stay true."""
    return _UNSTORABLE.sub("\ufffd", text)


def normalise_metadata(value: object) -> dict[str, Any]:
    """Check metadata and copy it deeply.

    Args:
        value: A mapping with string keys.

    Returns:
        New plain dicts and lists of the accepted types, in the order given; NUL and lone surrogates in strings and keys
        replaced by U+FFFD.

    Raises:
        TypeError: Not a mapping, a key that is no string, or a value of another type.
        ValueError: Nested deeper than 64 or holding itself, more than 100,000 values, an integer beyond 2,048 bits, or
            two keys that become the same one.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"metadata must be a mapping with str keys, got {type(value).__name__}")
    return _Copier("metadata").mapping(value, ())


def normalise_value(value: object, name: str) -> Any:
    """Check and copy one value by the rules of `normalise_metadata`; errors call it `name`."""
    return _Copier(name).copy(value, ())


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """Write normalised metadata as JSON text from which `decode_metadata` gives back equal values of the same types.

    Plain JSON values stay what they are, so a database may look into the text; the others become an object with the key
    `$kb`, and a user's own object that has this key is wrapped, so that it can't be taken for one.
    """
    if not metadata:
        return "{}"
    try:
        text = _ENCODER.encode(metadata)
    except (TypeError, ValueError):  # a date, a Decimal, a float that is not finite
        text = f'"{_TAG}"'
    if f'"{_TAG}"' not in text:
        return text
    return _ENCODER.encode(_tagged(metadata))


def decode_metadata(text: str) -> dict[str, Any]:
    """Read what `encode_metadata` wrote; fresh objects at each call."""
    found: dict[str, Any] = json.loads(text, object_hook=_untagged if f'"{_TAG}"' in text else None)
    return found


def json_safe_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Copy normalised metadata into strictly valid JSON values, for output that others read.

    Dates become ISO 8601 strings, Decimals strings, floats that are not finite None, and integers beyond 64 bits
    strings: JavaScript rounds them, and msgpack, which agent frameworks keep checkpoints in, refuses them.
    """
    return {key: _json_safe(value) for key, value in metadata.items()}


Path = tuple[str | int, ...]


class _Copier:
    """One walk over a value that came from outside: bounded in depth, and in size for objects that share parts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._n_values = 0

    def copy(self, value: object, path: Path) -> Any:
        kind = type(value)
        if kind is str:
            return clean_text(value)  # type: ignore[arg-type]  # `kind is str` does not narrow
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return self._int(value, path)  # type: ignore[arg-type]
        if isinstance(value, Mapping):
            return self.mapping(value, path)
        if isinstance(value, list | tuple):
            return self._list(value, path)
        return self._scalar(value, path)

    def mapping(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        self._count(len(value), path)
        copied: dict[str, Any] = {}
        for key, item in value.items():
            name = key.value if isinstance(key, Enum) else key
            if not isinstance(name, str):
                raise TypeError(f"{self._at(path)} has a key of type {type(key).__name__}; keys must be str")
            name = clean_text(name)
            if name in copied:
                raise ValueError(f"{self._at(path)} has two keys that both become {name[:40]!r}")
            copied[name] = self.copy(item, (*path, name))
        return copied

    def _list(self, value: list[Any] | tuple[Any, ...], path: Path) -> list[Any]:
        self._count(len(value), path)
        return [self.copy(item, (*path, index)) for index, item in enumerate(value)]

    def _count(self, n_values: int, path: Path) -> None:
        self._n_values += n_values
        if len(path) >= MAX_DEPTH:
            raise ValueError(f"{self._name} is nested deeper than {MAX_DEPTH} levels, or holds itself")
        if self._n_values > MAX_VALUES:
            raise ValueError(f"{self._name} holds more than {MAX_VALUES:,} values")

    def _scalar(self, value: object, path: Path) -> Any:
        # Enum first: members of `class Colour(str, Enum)` are strings whose str() is not their value. Arrays next:
        # numpy's float64 and str_ are floats and strings, and must not stay what they are.
        if isinstance(value, Enum):
            return self.copy(value.value, path)
        if hasattr(value, "dtype") and hasattr(value, "tolist"):
            return self._array(value, path)
        if isinstance(value, str | PurePath | UUID):
            return clean_text(str.__str__(value) if isinstance(value, str) else str(value))
        if isinstance(value, int):
            return self._int(value, path)
        if isinstance(value, float):
            return float(value)
        return self._date_or_decimal(value, path)

    def _int(self, value: int, path: Path) -> int:
        if value.bit_length() > MAX_INT_BITS:
            raise ValueError(f"{self._at(path)} is an integer of more than {MAX_INT_BITS} bits")
        return int(value)

    def _date_or_decimal(self, value: object, path: Path) -> date | Decimal | None:
        if isinstance(value, datetime):
            return _plain_datetime(value)
        if isinstance(value, date):
            return date(value.year, value.month, value.day)
        if isinstance(value, Decimal):
            return Decimal("NaN") if value.is_nan() else Decimal(value)
        raise TypeError(f"{self._at(path)} is of type {type(value).__name__}; accepted are {_ACCEPTED}")

    def _array(self, value: Any, path: Path) -> Any:
        dtype_kind = getattr(value.dtype, "kind", "")
        if dtype_kind == "m":
            raise TypeError(f"{self._at(path)} is of type timedelta64; accepted are {_ACCEPTED}")
        if dtype_kind == "M" and str(value.dtype).endswith(_FINER_THAN_DATETIME):
            value = value.astype("datetime64[us]")
        plain = value.tolist()
        # numpy's longdouble gives itself.
        return self.copy(float(plain) if type(plain) is type(value) else plain, path)

    def _at(self, path: Path) -> str:
        steps = [step if isinstance(step, int) else step[:40] for step in path]
        return self._name + "".join(f"[{step!r}]" for step in steps)


def _plain_datetime(value: datetime) -> datetime | None:
    """Strip a subclass (pandas) and a named zone, whose rules may change, down to the offset of that very time."""
    if value != value:  # pandas' NaT, the missing date, is a datetime and unlike itself
        return None
    offset = value.utcoffset()
    zone = None if offset is None else timezone(offset)
    return datetime(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, zone)


def _tagged(value: Any) -> Any:
    if isinstance(value, Mapping):
        pairs = {key: _tagged(item) for key, item in value.items()}
        return {_TAG: "dict", "v": list(pairs.items())} if _TAG in pairs else pairs
    if isinstance(value, list):
        return [_tagged(item) for item in value]
    if isinstance(value, datetime):
        return {_TAG: "datetime", "v": value.isoformat()}
    if isinstance(value, date):
        return {_TAG: "date", "v": value.isoformat()}
    if isinstance(value, Decimal):
        return {_TAG: "Decimal", "v": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {_TAG: "float", "v": str(value)}
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "Decimal": Decimal,
    "float": float,
    "dict": dict,
}


def _untagged(value: dict[str, Any]) -> Any:
    return _READERS[value[_TAG]](value["v"]) if _TAG in value else value


def _json_safe(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        return {key: _json_safe(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_safe(item) for item in value]
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return _json_safe(normalise_value(value, "a metadata value"))  # put in by hand after the check
