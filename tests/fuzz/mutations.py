"""What may become of a message: bits flip, pieces are lost, repeated and exchanged, values are of other types.

Mutations of bytes know nothing. Those of values know MessagePack, also within bytes and extensions of a message, and
keep all lengths right, so that what they change reaches whoever reads the message.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

_INTEGERS = (0, 1, -1, 127, 255, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**18)
_FLOATS = (float("nan"), float("inf"), float("-inf"), 0.5, 1e300, -0.0)
_TEXTS = (
    "",
    "a",
    "\x00",
    "heartbeat/99",
    "99999999-99-99",
    "Infinity",
    "\u202e",
    "O",
    "<i8",
    "at_p011",
    "1e9",
    "x" * 300,
)
_BAD_TEXT = (b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80", b"\xa1\xc3", b"\xd9\x04\xf8\x88\x80\x80")
_NESTED = (b"\x91" * 40 + b"\x00", b"\x91" * 3_000 + b"\x00", b"\x81\xa1a" * 200 + b"\xc0")
_EMPTY = (
    b"\xc0",
    b"\x90",
    b"\x80",
    b"\xc2",
    b"\xc3",
    b"\xc4\x00",
    b"\x93\x00\x00\x00",
    b"\xdc\xff\xff",
    b"\xdf\xff\xff\xff\xff",
)
_HUGE = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\x7f\xff\xff\xff",
    b"\xc6\xff\xff\xff\xf0",
    b"\xdb\x7f\xff\xff\xff",
    b"\xc9\xff\xff\xff\xf0\x05",
)
_EXTENSIONS = tuple(range(-1, 17))

_encode = msgspec.msgpack.Encoder().encode

ATOMS: tuple[bytes, ...] = (
    *map(_encode, (*_INTEGERS, *_FLOATS, *_TEXTS, b"", b"\x00" * 8, [1, 2, 3], {"a": 1}, {1: None}, [[]])),
    *_BAD_TEXT,
    *_NESTED,
    *_EMPTY,
    *(
        struct.pack(">BIb", 0xC9, len(body), code) + body
        for code in _EXTENSIONS
        for body in (b"\xc0", b"\x92\x01\x02", b"\xa1a")
    ),
)
"""Values that are put in the place of others, as bytes."""


class _Envelope(NamedTuple):
    """Bytes, or an extension, that hold a value in MessagePack."""

    head: int
    body: int
    end: int
    extension: int | None


class Value(NamedTuple):
    """Where a value of a message is, where the values in it are, and which envelopes it is in."""

    start: int
    end: int
    children: tuple[tuple[int, int], ...]
    is_map: bool
    envelopes: tuple[_Envelope, ...]


def values_of(message: bytes) -> list[Value]:
    """Returns all values of a message in MessagePack, at any depth; none if it is something else."""
    values: list[Value] = []
    try:
        end = _walk(message, 0, len(message), (), values)
    except (IndexError, KeyError, struct.error):
        return []
    return values if end == len(message) else []


def _walk(data: bytes, at: int, limit: int, envelopes: tuple[_Envelope, ...], values: list[Value]) -> int:
    """Notes the value that begins somewhere, and those in it; returns where it ends."""
    start, kind = at, data[at]
    children: list[tuple[int, int]] = []
    at, count, size, extension = _header(data, at)
    if at + size > limit:
        raise IndexError
    place = len(values)
    for _ in range(count):
        begin = at
        at = _walk(data, at, limit, envelopes, values)
        children.append((begin, at))
    body, at = at, at + size
    if size and (extension is not None or kind in (0xC4, 0xC5, 0xC6)):
        inner: list[Value] = []
        try:
            if _walk(data, body, at, (*envelopes, _Envelope(start, body, at, extension)), inner) == at:
                values += inner
        except (IndexError, KeyError, struct.error):
            pass
    if at > limit:
        raise IndexError
    values.insert(place, Value(start, at, tuple(children), 0x80 <= kind < 0x90 or kind in (0xDE, 0xDF), envelopes))
    return at


_FIXED = {
    0xC0: 0,
    0xC2: 0,
    0xC3: 0,
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
}
_SIZED = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_LISTS = {0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_EXTENDED = {0xC7: ">B", 0xC8: ">H", 0xC9: ">I"}


def _header(data: bytes, at: int) -> tuple[int, int, int, int | None]:
    """Returns where the content of a value begins, how many values it has, how many bytes, and the code of an extension."""
    kind = data[at]
    if kind < 0x80 or kind >= 0xE0:
        return at + 1, 0, 0, None
    if kind < 0xA0:
        return at + 1, (kind & 15) * (2 if kind < 0x90 else 1), 0, None
    if kind < 0xC0:
        return at + 1, 0, kind & 31, None
    if kind in _FIXED:
        return at + 1, 0, _FIXED[kind], None
    if 0xD4 <= kind <= 0xD8:
        return at + 2, 0, 1 << (kind - 0xD4), data[at + 1]
    shape = _SIZED.get(kind) or _EXTENDED.get(kind) or _LISTS[kind]
    (number,) = struct.unpack_from(shape, data, at + 1)
    after = at + 1 + struct.calcsize(shape)
    if kind in _LISTS:
        return after, number * (2 if kind >= 0xDE else 1), 0, None
    return (after + 1, 0, number, data[after]) if kind in _EXTENDED else (after, 0, number, None)


class Mutator:
    """Draws messages that are like some samples, and wrong. The same random numbers give the same messages."""

    def __init__(self, samples: Sequence[bytes], *, structured: bool = True) -> None:
        self.samples = list(samples)
        self._values = [values_of(sample) if structured else [] for sample in samples]
        self._pieces = [
            sample[value.start : value.end] for sample, known in zip(samples, self._values) for value in known
        ]
        self._of_bytes: tuple[Callable[[random.Random, bytes], bytes], ...] = (
            _flip,
            _flip,
            _truncate,
            _insert,
            _remove,
            _overwrite,
            self._splice,
        )

    def draw(self, rng: random.Random) -> bytes:
        """Returns the next message."""
        number = int(rng.random() * len(self.samples))
        message, values = self.samples[number], self._values[number]
        if values and rng.random() < 0.7:
            message = self._with_other_value(rng, message, values)
            if rng.random() < 0.75:
                return message
        for _ in range(1 + (rng.random() < 0.3) + (rng.random() < 0.1)):
            message = self._of_bytes[int(rng.random() * len(self._of_bytes))](rng, message)
        return message

    def _with_other_value(self, rng: random.Random, message: bytes, values: list[Value]) -> bytes:
        value = values[int(rng.random() * len(values))]
        chance = rng.random()
        if value.children and chance < 0.35:
            other = _with_other_children(rng, message, value)
        elif chance < 0.75:
            other = ATOMS[int(rng.random() * len(ATOMS))]
        else:
            other = self._pieces[int(rng.random() * len(self._pieces))]
        return _replaced(message, value, other)

    def _splice(self, rng: random.Random, message: bytes) -> bytes:
        other = self.samples[int(rng.random() * len(self.samples))]
        return message[: int(rng.random() * (len(message) + 1))] + other[int(rng.random() * (len(other) + 1)) :]


def _with_other_children(rng: random.Random, message: bytes, value: Value) -> bytes:
    """A list or a map with one of its values less, or with one twice."""
    step = 2 if value.is_map else 1
    count = len(value.children) // step
    parts = [message[value.children[at][0] : value.children[at + step - 1][1]] for at in range(0, count * step, step)]
    at = int(rng.random() * count)
    parts[at : at + 1] = rng.choice(([], [parts[at]] * 2, [parts[at], parts[0]]))
    return struct.pack(">BI", 0xDF if value.is_map else 0xDD, len(parts)) + b"".join(parts)


def _replaced(message: bytes, value: Value, other: bytes) -> bytes:
    """Puts a value in the place of another one; the envelopes around it get the sizes that they now have."""
    grown = len(other) - (value.end - value.start)
    message = message[: value.start] + other + message[value.end :]
    for envelope in reversed(value.envelopes):
        size = envelope.end - envelope.body + grown
        head = (
            struct.pack(">BI", 0xC6, size)
            if envelope.extension is None
            else struct.pack(">BIB", 0xC9, size, envelope.extension)
        )
        message = message[: envelope.head] + head + message[envelope.body :]
        grown += len(head) - (envelope.body - envelope.head)
    return message


def _flip(rng: random.Random, message: bytes) -> bytes:
    if not message:
        return b"\x00"
    at = int(rng.random() * len(message))
    return message[:at] + bytes([message[at] ^ (1 << int(rng.random() * 8))]) + message[at + 1 :]


def _truncate(rng: random.Random, message: bytes) -> bytes:
    return message[: int(rng.random() * len(message))]


def _insert(rng: random.Random, message: bytes) -> bytes:
    at = int(rng.random() * (len(message) + 1))
    pool = rng.choice((ATOMS, _HUGE, _BAD_TEXT))
    return message[:at] + pool[int(rng.random() * len(pool))] + message[at:]


def _remove(rng: random.Random, message: bytes) -> bytes:
    at = int(rng.random() * (len(message) + 1))
    return message[:at] + message[at + 1 + int(rng.random() * 8) :]


def _overwrite(rng: random.Random, message: bytes) -> bytes:
    at = int(rng.random() * (len(message) + 1))
    pool = rng.choice((_HUGE, _BAD_TEXT, (b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, b"\xc1")))
    other = pool[int(rng.random() * len(pool))]
    return message[:at] + other + message[at + len(other) :]
