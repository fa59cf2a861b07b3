"""Reading without copying: a map of our own of a segment's data file.

LMDB's memory is only ours within a transaction: afterwards the environment may be closed, or its map moved. But large
values lie in pages of their own, one behind the other, and since nothing in a segment is ever changed or deleted,
neither are these pages. So they are looked up in a second map of the same file, which lives as long as anyone holds
rows of it; no transaction stays open, no page is pinned. The checksum is computed over this second view, so a wrong
guess cannot go unnoticed.

Copying costs almost as much as the checksum (measured, 24 bytes per row, on a busy machine: the checksum alone 110 to
140 M rows/s, with a copy 60 to 85).
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

_COPIED_BYTES_MAX: Final = 64 << 10
"""Smaller values are copied: that is cheaper than to map a file that grew."""

_PAGE_HEAD_BYTES: Final = 16  # of LMDB 0.9; the first eight are the page's number
_META_TRANSACTION: Final = 144  # where a meta page has its number
_COMPARED_BYTES: Final = 48


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

    def lasting(self, data: memoryview) -> memoryview:
        """The same bytes as a value in LMDB's memory, but valid for as long as the result is held."""
        found = self._found(data) if len(data) > _COPIED_BYTES_MAX else None
        return _copied(data) if found is None else found

    def _found(self, data: memoryview) -> memoryview | None:
        page = pa.py_buffer(data).address - _PAGE_HEAD_BYTES
        if page % self._page_bytes:
            return None
        first = ctypes.c_uint64.from_address(page).value * self._page_bytes + _PAGE_HEAD_BYTES
        if first + len(data) > len(self._view):
            self._map()
        found = self._view[first : first + len(data)]
        same = len(found) == len(data) and found[:_COMPARED_BYTES] == data[:_COMPARED_BYTES]
        return found if same else None

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
