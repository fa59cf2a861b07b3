"""Canonical bytes: equal values give equal bytes, and nothing is ever unpickled.

Seals are compared byte by byte (invariant: one-value), and checkpoints are read back by other processes, so the
encoding must be a function of the value alone: maps and sets are sorted by their encoded members, NaN has one bit
pattern, -0.0 is 0.0, arrays are little-endian and contiguous. Of many integers only as many bytes are kept as tell them
apart: they go to logs and stores and back, and most are keys, times or positions that lie close together.

>>> encode({"b": 1, "a": (2.0, None)}) == encode({"a": (2.0, None), "b": 1})
True
>>> decode(encode({"a": (2.0, None)}))
{'a': (2.0, None)}
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np

from holons.errors import CodecError

_TUPLE: Final = 1
_SET: Final = 2
_FROZENSET: Final = 3
_MAP: Final = 4
_ARRAY: Final = 5
_STRINGS: Final = 6
_OBJECTS: Final = 7
_BIG_INT: Final = 8
_DATETIME: Final = 9
_DATE: Final = 10
_TIME: Final = 11
_DURATION: Final = 12
_SHORT: Final = 13
_DECIMAL: Final = 14

_PLAIN_DTYPES: Final = frozenset("?bBhHiIlLqQfd")
_WRITTEN_DTYPES: Final = frozenset(np.dtype(kind).newbyteorder("<").str for kind in _PLAIN_DTYPES)
_LARGE_BYTES: Final = 1 << 15
"""From here on bytes are put together once, at the end, and not at each level again."""
_SHORTENED_BYTES_MIN: Final = 1 << 15
_SHORT_WIDTHS: Final = (1, 2, 4)

_encoder = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """The canonical bytes of `value`: None, bool, number, Decimal, str, bytes, time, list, tuple, set, dict, NumPy array."""
    return b"".join(pieces(value))


def pieces(value: object) -> list[bytes | memoryview]:
    """The canonical bytes of `value` in pieces: whoever puts them into something larger copies them only once."""
    try:
        return _pieces(_prepare(value))
    except (UnicodeEncodeError, RecursionError, OverflowError) as error:
        raise CodecError(
            f"this value has no canonical bytes: {error}", hint="text must be Unicode, nesting shallow"
        ) from error


@dataclass(frozen=True, eq=False)
class NestedBytes:
    """Within another value: the bytes of a value, which are not put together twice.

    >>> encode([NestedBytes({"a": 1})]) == encode([encode({"a": 1})])
    True
    """

    value: object


def decode(data: bytes | memoryview) -> Any:  # noqa: ANN401 - the value is whatever was encoded
    """The value that `encode` was given; arrays come back read-only."""
    try:
        return _decoder.decode(data)
    except CodecError:
        raise
    except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
        raise CodecError(
            f"these {len(data)} bytes are not a value of ours: {error}",
            hint="the data is damaged, or was written by something else",
        ) from error


def _prepare(value: object) -> object:
    """`value` in terms of what MessagePack knows, in a canonical form."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is bytes:
        return _prepare_bytes([value])  # type: ignore[list-item]
    if kind is int:
        return value if -(2**63) <= value < 2**64 else _extension(_BIG_INT, _big(value))  # type: ignore[operator,arg-type]
    if kind is float:
        return _canonical_float(value)  # type: ignore[arg-type]
    preparer = _PREPARERS.get(kind)
    if preparer is not None:
        return preparer(value)
    if isinstance(value, np.generic):
        return _prepare(value.item())
    if isinstance(value, datetime.datetime):  # of pandas: Arrow gives those for nanoseconds
        return _prepare_datetime(value)
    if isinstance(value, datetime.timedelta):
        return _prepare_duration(value)
    if isinstance(value, tuple):  # named tuples travel as tuples
        return _extension(_TUPLE, _items([_prepare(item) for item in value]))
    raise CodecError(
        f"a {kind.__name__} has no canonical bytes",
        hint="use None, bool, int, float, str, bytes, Decimal, datetime, list, tuple, set, dict or a NumPy array",
    )


def _big(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _canonical_float(value: float) -> float:
    if value != value:
        return float("nan")
    return value + 0.0  # -0.0 + 0.0 is 0.0


class _Large:
    """Encoded already, in pieces: they hold many bytes, which are copied as seldom as can be."""

    def __init__(self, pieces: list[bytes | memoryview]) -> None:
        self.pieces = pieces
        self.length = sum(map(len, pieces))


def _pieces(prepared: object) -> list[bytes | memoryview]:
    return prepared.pieces if isinstance(prepared, _Large) else [_encoder.encode(prepared)]


def _items(prepared: list[object]) -> object:
    """A list of prepared items."""
    if not any(isinstance(item, _Large) for item in prepared):
        return prepared
    return _Large([_header(_LIST, len(prepared)), *(piece for item in prepared for piece in _pieces(item))])


def _extension(code: int, body: object) -> object:
    if isinstance(body, _Large):
        return _Large([_header(_EXTENSION, body.length) + bytes([code]), *body.pieces])
    return msgspec.msgpack.Ext(code, _encoder.encode(body))


_LIST: Final = (b"\xdc", b"\xdd")
_BYTES: Final = (b"\xc5", b"\xc6")
_EXTENSION: Final = (b"\xc8", b"\xc9")


def _header(kinds: tuple[bytes, bytes], length: int) -> bytes:
    """What MessagePack writes before a list, before bytes (at least 256), or before an extension of as many."""
    if kinds is _LIST and length < 16:
        return bytes([0x90 | length])
    two, four = kinds
    return two + length.to_bytes(2, "big") if length < 1 << 16 else four + length.to_bytes(4, "big")


def _prepare_bytes(pieces: list[bytes | memoryview]) -> object:
    length = sum(map(len, pieces))
    return b"".join(pieces) if length < _LARGE_BYTES else _Large([_header(_BYTES, length), *pieces])


def _prepare_map(value: Any) -> object:  # noqa: ANN401
    pairs = sorted(((encode(key), _prepare(item)) for key, item in value.items()), key=lambda pair: pair[0])
    return _extension(_MAP, _items([_items([msgspec.Raw(key), item]) for key, item in pairs]))


def _prepare_set(code: int) -> Callable[[Any], object]:
    return lambda value: _extension(code, [msgspec.Raw(item) for item in sorted(encode(item) for item in value)])


def _prepare_array(array: Any) -> object:  # noqa: ANN401
    if isinstance(array.dtype, np.dtypes.StringDType):
        return _extension(_STRINGS, array.tolist())
    if array.dtype.kind == "O":
        items = _items([_prepare(item) for item in array.ravel()])
        return _extension(_OBJECTS, _items([list(array.shape), items]))
    if array.dtype.char not in _PLAIN_DTYPES:
        raise CodecError(
            f"an array of {array.dtype} has no canonical bytes", hint="use integers, floats, bools or strings"
        )
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array + 0.0)
    body = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if body.nbytes >= _SHORTENED_BYTES_MIN and body.dtype == np.int64 and body.ndim == 1:
        short = _shortened(body)
        if short is not None:
            low, steps, kept = short
            return _extension(_SHORT, _items([low, steps, kept.dtype.str, _raw(kept)]))
    if body.nbytes < _LARGE_BYTES:
        return _extension(_ARRAY, [body.dtype.str, list(array.shape), body.tobytes()])
    return _extension(_ARRAY, _items([body.dtype.str, list(array.shape), _raw(np.ascontiguousarray(body))]))


def _raw(array: np.ndarray) -> object:
    return _prepare_bytes([array.reshape(-1).view(np.uint8).data])


def _shortened(values: np.ndarray) -> tuple[int, bool, np.ndarray] | None:
    """Integers as what they are above the least, or as steps from one to the next if they ascend and that is shorter.

    None if four bytes for each are not enough.
    """
    low, high = int(values.min()), int(values.max())
    width = _width(high - low)
    if width != 1 and values[0] == low and values[-1] == high:  # else they do not ascend
        steps = np.diff(values, prepend=low)
        step_width = _width(int(steps.max())) if steps.min() >= 0 else None
        if step_width is not None and (width is None or step_width < width):
            return low, True, steps.astype(f"<u{step_width}")
    return None if width is None else (low, False, np.subtract(values, low).astype(f"<u{width}"))


def _width(span: int) -> int | None:
    return next((width for width in _SHORT_WIDTHS if span < 1 << 8 * width), None)


def _prepare_datetime(value: Any) -> object:  # noqa: ANN401
    same_instant = value if value.tzinfo is None else value.astimezone(datetime.UTC)
    return _extension(_DATETIME, same_instant.isoformat())


def _prepare_duration(value: Any) -> object:  # noqa: ANN401
    nanoseconds = [value.nanoseconds] if getattr(value, "nanoseconds", 0) else []
    return _extension(_DURATION, [value.days, value.seconds, value.microseconds, *nanoseconds])


def _prepare_decimal(value: Any) -> object:  # noqa: ANN401
    """Equal numbers have equal bytes, so 1.50 is 1.5; no digit is rounded away."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _extension(_DECIMAL, str(value))
    stripped = "".join(map(str, digits)).rstrip("0").lstrip("0")
    exponent += len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return _extension(_DECIMAL, f"{'-' if sign else ''}{stripped}E{exponent}" if stripped else "0")


_PREPARERS: Final[dict[type, Callable[[Any], object]]] = {
    tuple: lambda value: _extension(_TUPLE, _items([_prepare(item) for item in value])),
    list: lambda value: _items([_prepare(item) for item in value]),
    dict: _prepare_map,
    set: _prepare_set(_SET),
    frozenset: _prepare_set(_FROZENSET),
    np.ndarray: _prepare_array,
    NestedBytes: lambda nested: _prepare_bytes(_pieces(_prepare(nested.value))),
    datetime.datetime: _prepare_datetime,
    datetime.date: lambda value: _extension(_DATE, value.isoformat()),
    datetime.time: lambda value: _extension(_TIME, value.isoformat()),
    datetime.timedelta: _prepare_duration,
    Decimal: _prepare_decimal,
}


_FROM_PLAIN: Final[dict[int, Callable[[Any], object]]] = {
    _BIG_INT: lambda inner: int.from_bytes(inner, "little", signed=True),
    _DATETIME: datetime.datetime.fromisoformat,
    _DATE: datetime.date.fromisoformat,
    _TIME: datetime.time.fromisoformat,
    _DECIMAL: Decimal,
}


def _restore(code: int, body: memoryview) -> object:
    inner = _decoder.decode(body)
    if code == _TUPLE:
        return tuple(inner)
    if code == _SET:
        return set(inner)
    if code == _FROZENSET:
        return frozenset(inner)
    if code == _MAP:
        return dict(inner)
    if code == _ARRAY:
        dtype, shape, data = inner
        return np.frombuffer(data, dtype=_dtype(dtype)).reshape(shape)
    if code == _SHORT:
        return _lengthened(*inner)
    if code == _STRINGS:
        return np.array(inner, dtype=np.dtypes.StringDType())
    if code == _OBJECTS:
        shape, items = inner
        return object_array(items).reshape(shape)
    if code in _FROM_PLAIN:
        return _FROM_PLAIN[code](inner)
    if code == _DURATION:
        return datetime.timedelta(*inner[:3])  # no finer than Python's own
    raise CodecError(f"unknown extension {code}", hint="the data was written by a newer version")


def _dtype(text: object) -> np.dtype[Any]:
    """The type of an array's items: one that we write, since NumPy would make a type of almost any text, or run it."""
    if text not in _WRITTEN_DTYPES:
        raise CodecError(f"an array of {text!r}", hint="the data is damaged, or was written by something else")
    return np.dtype(text)


def _lengthened(low: int, steps: bool, dtype: str, data: bytes) -> np.ndarray:
    kept = np.frombuffer(data, dtype=_dtype(dtype))
    if kept.dtype.kind != "u":
        raise CodecError(f"shortened integers kept as {dtype}", hint="the data is damaged")
    values = np.cumsum(kept, dtype=np.int64) if steps else kept.astype(np.int64)
    values += np.int64(low)
    values.flags.writeable = False
    return values


def object_array(items: list[object]) -> np.ndarray:
    """A one-dimensional array of Python objects, whatever they are (NumPy would unpack tuples and arrays)."""
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array


_decoder = msgspec.msgpack.Decoder(ext_hook=_restore)
