"""Reading without copying, and without touching what nobody reads: a map of our own of a segment's data file.

LMDB's memory is only ours within a transaction: afterwards the environment may be closed, or its map moved. But large
values lie in pages of their own, one behind the other, and since nothing in a segment is ever changed or deleted,
neither are these pages. So they are looked up in a second map of the same file, which lives as long as anyone holds
rows of it; no transaction stays open, no page is pinned. Where they are stands beside their key. LMDB's binding is not
asked for them: it would touch every page of a value, so that wide rows were read as a whole for the sake of one column.
Checksums are computed over this second view, so a wrong guess cannot go unnoticed.

Copying costs almost as much as the checksum (measured, 24 bytes per row, on a busy machine: the checksum alone 110 to
140 M rows/s, with a copy 60 to 85).
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from pathlib import Path
from typing import Final

import lmdb
import numpy as np
import pyarrow as pa

_COPIED_BYTES_MAX: Final = 64 << 10
"""Smaller values are copied: that is cheaper than to map a file that grew."""

_PAGE_HEAD_BYTES: Final = 16  # of LMDB 0.9; the first eight are the page's number
_META_TRANSACTION: Final = 144  # where a meta page has its number
_NODE: Final = struct.Struct("<IHH")  # what stands before a key: the value's size, flags, the key's size
_OWN_PAGES: Final = 1  # the flag of values that are elsewhere: behind the key is the number of their first page
_PAGE: Final = struct.Struct("<Q")


class Mapping:
    """A data file, mapped for reading."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._path = path
        self._page_bytes = page_bytes
        self._view = memoryview(b"")
        with path.open("rb") as file:
            self._metas = mmap.mmap(file.fileno(), 2 * page_bytes, access=mmap.ACCESS_READ)
        self._transactions = struct.Struct(f"={_META_TRANSACTION}x Q {page_bytes - 8}x Q")

    def newest_transaction(self) -> int:
        """The number of the newest commit; of one that is just being made, a little before a reader can see it."""
        return max(self._transactions.unpack_from(self._metas))

    def value(self, cursor: lmdb.Cursor[memoryview]) -> memoryview:
        """The value that a cursor is at: a large one in our own map, a small one in LMDB's memory."""
        found = self._found(cursor.key()) if sys.byteorder == "little" else None
        return cursor.value() if found is None else found

    def lasting(self, data: memoryview) -> memoryview:
        """The same value, valid for as long as the result is held."""
        return data if data.obj is self._view.obj else _copied(data)

    def _found(self, key: memoryview) -> memoryview | None:
        """The value of a key in LMDB's memory, if it is large."""
        at = pa.py_buffer(key).address
        length, flags, key_bytes = _NODE.unpack(ctypes.string_at(at - _NODE.size, _NODE.size))
        if flags != _OWN_PAGES or key_bytes != len(key) or length <= _COPIED_BYTES_MAX:
            return None
        number = ctypes.string_at(at + key_bytes, _PAGE.size)
        page = _PAGE.unpack(number)[0] * self._page_bytes
        first = page + _PAGE_HEAD_BYTES
        if first + length > len(self._view):
            self._map()
        found = self._view[first : first + length]
        return found if len(found) == length and self._view[page : page + _PAGE.size] == number else None

    def _map(self) -> None:
        try:
            with self._path.open("rb") as file:
                self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # trimmed meanwhile: what is left of it is copied
            self._view = memoryview(b"")


def _copied(data: memoryview) -> memoryview:
    copy = pa.allocate_buffer(len(data))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(data, np.uint8)
    return memoryview(copy)
