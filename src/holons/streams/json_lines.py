"""JSON lines, checked before Arrow reads them: each line is one object.

Arrow's reader ends the process where a block of the file begins with `null`, and where values are nested some thousand
deep; of a `null` between objects it makes a row of nulls. So it only gets lines that were checked, and by the same read.

>>> import pyarrow as pa
>>> rows = CheckedLines(pa.BufferReader(b'{"ts": 1}\\n{"ts": NaN}\\nnull\\n'), Path("rows.jsonl"))
>>> rows.read(20)
b'{"ts": 1}\\n{"ts": NaN'
>>> rows.read(20)
Traceback (most recent call last):
holons.errors.BadInput: a line that is no JSON object: Expected `object`, got `null` (file rows.jsonl, line 3)
  hint: each line is one row: {"ts": 1, …}
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from holons.errors import BadInput

DEPTH_MAX: Final = 50
"""How deep the values of a line may be nested. Arrow's format for logs ends at 64."""


class _Row(msgspec.Struct, gc=False):
    """An object with any fields: they are skipped, and must be JSON."""


_OBJECT: Final = msgspec.json.Decoder(_Row)
_ALL_BUT_OPENINGS: Final = bytes(set(range(256)) - set(b"[{\n"))
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class CheckedLines(io.RawIOBase):
    """A file of JSON lines that raises `BadInput` instead of returning the end of a line that is no object.

    What it returns begins a line only after "\\n", as Arrow might cut at any "\\r", too.
    """

    def __init__(self, source: pa.NativeFile, path: Path) -> None:
        self._source = source
        self._path = path
        self._lines = 0
        self._begun: list[bytes] | None = None  # a line of which the end was not read

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data: bytes = self._source.read(size if size >= 0 else None)
        unread = data
        if self._begun is None:
            self._begun = []
            unread = data.removeprefix(_BYTE_ORDER_MARK)
        if data:
            whole, newline, rest = unread.rpartition(b"\n")
            if newline:
                self._check(b"".join([*self._begun, whole, newline]))
                self._begun = []
            self._begun.append(rest)
        elif self._begun:
            self._check(b"".join(self._begun))
            self._begun = []
        return data.replace(b"\r", b" ") if b"\r" in data else data

    def _check(self, lines: bytes) -> None:
        """Raises unless each of these lines is one object or blank."""
        if not _all_objects(lines):
            for number, line in enumerate(lines.split(b"\n"), self._lines + 1):
                if wrong := _why_no_row(line):
                    raise BadInput(wrong, hint='each line is one row: {"ts": 1, …}', file=self._path, line=number)
        self._lines += lines.count(b"\n")


def _all_objects(lines: bytes) -> bool:
    """Whether all is clearly well: each line is shallow and begins as an object, and there are as many objects as lines."""
    count = lines.count(b"\n")
    if not lines.startswith(b"{") or lines.count(b"\n{") != count - 1:
        return False
    if max(map(len, lines.translate(None, _ALL_BUT_OPENINGS).split(b"\n"))) > DEPTH_MAX:
        return False
    try:
        return len(_OBJECT.decode_lines(lines)) == count
    except (msgspec.DecodeError, RecursionError):
        return False


def _why_no_row(line: bytes) -> str | None:
    """Returns what is wrong with a line; None if it is an object or blank."""
    if not line.strip():
        return None
    if _depth(line) > DEPTH_MAX:
        return f"a line whose values are nested more than {DEPTH_MAX} deep"
    try:
        _OBJECT.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        if not _is_object(line):
            return f"a line that is no JSON object: {error}"
    return None


def _is_object(line: bytes) -> bool:
    """Whether Python reads the line as an object: it and Arrow know NaN and Infinity, msgspec does not."""
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False


def _depth(line: bytes) -> int:
    """Returns how deep the values of a line are nested, or at most `DEPTH_MAX` if they clearly are not deeper."""
    if (openings := line.count(b"[") + line.count(b"{")) <= DEPTH_MAX:
        return openings
    brackets = _TEXT.sub(b"", line).translate(None, _ALL_BUT_BRACKETS)
    opening = np.isin(np.frombuffer(brackets, np.uint8), np.frombuffer(b"[{", np.uint8))
    return int(np.cumsum(np.where(opening, 1, -1)).max(initial=0))
