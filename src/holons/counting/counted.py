"""Counted rows as columns: which rows count, rows in one piece, and rows as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from holons import codec
from holons.algebra import IntArray, Origin, Rows
from holons.algebra.rows import Element, Masked, column, prepare
from holons.errors import CodecError
from holons.windows import is_ascending


class Numbered(NamedTuple):
    """Rows of one partition, and their numbers: a column, or the first of consecutive ones."""

    rows: Rows
    numbers: IntArray | int

    def number_column(self) -> IntArray:
        """Returns each row's number."""
        if isinstance(self.numbers, int):
            return np.arange(self.numbers, self.numbers + self.rows.count, dtype=np.int64)
        return self.numbers

    def between(self, first: int, last: int) -> Numbered:
        """Returns the rows from `first` up to `last`, without copying."""
        numbers = self.numbers + first if isinstance(self.numbers, int) else self.numbers[first:last]
        return Numbered(self.rows.between(first, last), numbers)


def counted_rows(element: object, ts: IntArray, origin: Origin, *, ascending: bool = False) -> Rows:
    """Returns the rows that count, of punctual ones: all but those whose whole element is null.

    >>> counted_rows({"a": [1, None, None], "b": [None, 2, None]}, np.arange(3), Origin(0, 0, 3)).ts.tolist()
    [0, 1]
    """
    return present_rows(prepare(element, ts, origin, ascending=ascending))


def present_rows(rows: Rows) -> Rows:
    """Returns the rows that count, of prepared ones."""
    if not isinstance(rows.element, Mapping):
        return rows
    parts = list(rows.element.values())
    if not parts or not all(isinstance(part, Masked) for part in parts):
        return rows
    present = np.logical_or.reduce([part.present for part in parts if isinstance(part, Masked)])
    return rows if present.all() else rows.take(present)


# --- in one piece ---------------------------------------------------------------------------------------------------


def shape_of(element: Element) -> object:
    """Returns what must be equal for elements to be put into one column: types, and names of parts."""
    if isinstance(element, Masked):
        return shape_of(element.part)
    if isinstance(element, tuple):
        return tuple(shape_of(part) for part in element)
    if isinstance(element, Mapping):
        return tuple((name, shape_of(part)) for name, part in element.items())
    return str(column(element, 0).dtype)


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Returns rows of one partition whose elements have one shape, in one piece. Their times may be in any order."""
    if len(parts) == 1:
        return parts[0]
    counts = [rows.count for rows in parts]
    offsets = np.concatenate([rows.origin.offsets() for rows in parts])
    origin = Origin(parts[0].origin.partition, 0, len(offsets), offsets)
    element = _concat([rows.element for rows in parts], counts)
    return Rows(element, np.concatenate([rows.ts for rows in parts]), origin)


def arranged(parts: Sequence[Rows], order: IntArray) -> list[tuple[Rows, IntArray]]:
    """Returns rows in an order, and with each piece its part of that order.

    Elements of different types are not put into one column: then there are several pieces.
    """
    shapes = [shape_of(rows.element) for rows in parts]
    kinds = list(dict.fromkeys(shapes))
    if len(kinds) == 1:
        return [(concat_rows(parts).take(order), order)]
    kind_of = np.repeat([kinds.index(shape) for shape in shapes], [rows.count for rows in parts])
    columns, place_of = [], np.empty(len(order), dtype=np.int64)
    for kind, shape in enumerate(kinds):
        columns.append(concat_rows([rows for rows, own in zip(parts, shapes, strict=True) if own == shape]))
        place_of[kind_of == kind] = np.arange(columns[-1].count)
    edges = np.flatnonzero(np.diff(kind_of[order], prepend=-1, append=-1))
    return [
        (columns[kind_of[order[first]]].take(place_of[order[first:last]]), order[first:last])
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def as_they_came(parts: Sequence[Rows]) -> list[Rows]:
    """Returns rows in the order of their offsets, rows of one offset in the order of `parts`: as row by row they would come.

    >>> twice = [counted_rows([1, 2], np.array([5, 6]), Origin(0, 0, 2)), counted_rows(7, np.array([5, 6]), Origin(0, 0, 2))]
    >>> [rows.ts.tolist() for rows in as_they_came(twice)]
    [[5, 5, 6, 6]]
    """
    ordered = all(rows.origin.index is None or is_ascending(rows.origin.index) for rows in parts)
    if ordered and all(int(a.origin.offsets()[-1]) < b.origin.first for a, b in pairwise(parts)):
        return list(parts)
    offsets = np.concatenate([rows.origin.offsets() for rows in parts])
    return [Rows(rows.element, rows.ts, rows.origin) for rows, _ in arranged(parts, np.argsort(offsets, kind="stable"))]


def _concat(elements: Sequence[Any], counts: Sequence[int]) -> Element:
    first = elements[0]
    if any(isinstance(element, Masked) for element in elements):
        present = [
            element.present if isinstance(element, Masked) else np.ones(count, dtype=np.bool_)
            for element, count in zip(elements, counts, strict=True)
        ]
        parts = [element.part if isinstance(element, Masked) else element for element in elements]
        return Masked(_concat(parts, counts), np.concatenate(present))
    if isinstance(first, tuple):
        return tuple(_concat(parts, counts) for parts in zip(*elements, strict=True))
    if isinstance(first, Mapping):
        return {name: _concat([element[name] for element in elements], counts) for name in first}
    columns = [column(element, count) for element, count in zip(elements, counts, strict=True)]
    if isinstance(columns[0], pl.Series):
        return pl.concat(columns)  # type: ignore[type-var]
    return np.concatenate(columns)


# --- as bytes -------------------------------------------------------------------------------------------------------


def encode_rows(pieces: Iterable[Numbered]) -> bytes:
    """Returns rows and their numbers, in pieces, as bytes."""
    return codec.encode([plain_rows(piece) for piece in pieces])


def decode_rows(data: bytes) -> list[Numbered]:
    """Returns the pieces that `encode_rows` was given."""
    return [restored_rows(plain) for plain in codec.decode(data)]


def plain_rows(numbered: Numbered) -> list[object]:
    """Returns rows and their numbers as a value that the codec knows."""
    rows, numbers = numbered
    origin = rows.origin
    index = origin.base if origin.index is None else origin.offsets()
    return [_plain(rows.element), rows.ts, rows.ascending, origin.partition, index, numbers]


def restored_rows(plain: list[Any]) -> Numbered:
    """Returns the rows of which `plain_rows` was given."""
    try:
        element, ts, ascending, partition, index, numbers = plain
        based = isinstance(index, int)
        origin = Origin(partition, index if based else 0, len(ts), None if based else index)
        return Numbered(Rows(_restored(element), ts, origin, ascending), numbers)
    except (TypeError, ValueError) as error:
        raise CodecError(f"these are no counted rows: {error}", hint="the data is damaged") from error


def _plain(element: Element) -> object:
    if isinstance(element, pl.Series):
        return {"texts": element.to_list()}
    if isinstance(element, Masked):
        return {"part": _plain(element.part), "present": element.present}
    if isinstance(element, tuple):
        return tuple(_plain(part) for part in element)
    if isinstance(element, Mapping):
        return {"names": list(element), "parts": [_plain(part) for part in element.values()]}
    return element


def _restored(plain: Any) -> Element:  # noqa: ANN401 - whatever was encoded
    if isinstance(plain, tuple):
        return tuple(_restored(part) for part in plain)
    if isinstance(plain, dict):
        if "texts" in plain:
            return pl.Series(plain["texts"], dtype=pl.String)
        if "present" in plain:
            return Masked(_restored(plain["part"]), plain["present"])
        return dict(zip(plain["names"], map(_restored, plain["parts"]), strict=True))
    element: npt.NDArray[np.generic] | int | float | str | bool = plain
    return element
