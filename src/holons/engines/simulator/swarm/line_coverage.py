"""Which lines of a room's functions are run: a trace function that costs little once it has seen a function's lines."""

from __future__ import annotations

import importlib
import linecache
import pkgutil
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, TypeAlias

from holons.engines.simulator.swarm.unreachable import Line

Lines: TypeAlias = dict[str, set[int]]
"""By file, numbers of lines."""
Trace: TypeAlias = Callable[[FrameType, str, Any], Any]

_TRIVIAL_BYTES: Final = 8
_TRACED_CALLS_MAX: Final = 2_000
"""So many calls of a function are traced at one time, and then a part of them: to trace all takes far too long."""
_TRACED_THEN_EVERY: Final = 8


class LineCoverage:
    """Records which lines of a package's functions are run while it traces.

    Lines of modules and classes run when they are imported, and do not count; nor do `def` lines, what protocols only
    describe, and lines that are listed as `unreachable`.
    """

    def __init__(self, package: str, unreachable: Collection[Line] = ()) -> None:
        self._missing: dict[CodeType, set[int]] = {}
        """By function, its lines that were not run yet."""
        self.unreachable: set[Line] = set()
        """Those that were listed, and are there."""
        self._calls: dict[CodeType, int] = {}
        self.lines: Lines = {}
        for module in modules_of(package):
            for code in _functions(module):
                lines = {line for *_, line in code.co_lines() if line is not None and line != code.co_firstlineno}
                listed = {number: line for number in lines if (line := _line(code, number)) in unreachable}
                self.unreachable.update(listed.values())
                lines -= listed.keys()
                self._missing[code] = set(lines)
                self.lines.setdefault(code.co_filename, set()).update(lines)

    @property
    def missing(self) -> Lines:
        """The lines that have not run."""
        missing: Lines = {}
        for code, lines in self._missing.items():
            if lines:
                missing.setdefault(code.co_filename, set()).update(lines)
        return missing

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Traces this thread, and those that begin meanwhile."""
        before = sys.gettrace()
        self._calls.clear()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)

    def _called(self, frame: FrameType, _event: str, _argument: object) -> Trace | None:
        code = frame.f_code
        missing = self._missing.get(code)
        if not missing:
            return None
        calls = self._calls[code] = self._calls.get(code, 0) + 1
        return _recording(missing) if calls <= _TRACED_CALLS_MAX or calls % _TRACED_THEN_EVERY == 0 else None


def _recording(missing: set[int]) -> Trace:
    def line(frame: FrameType, event: str, _argument: object) -> Trace:
        if event == "line":
            missing.discard(frame.f_lineno)
        return line

    return line


def _line(code: CodeType, number: int) -> Line:
    return Line(Path(code.co_filename).name, code.co_name, linecache.getline(code.co_filename, number).strip())


def modules_of(package: str) -> Iterator[ModuleType]:
    """Yields a package and all of its modules."""
    room = importlib.import_module(package)
    yield room
    for found in pkgutil.walk_packages(room.__path__, f"{package}."):
        yield importlib.import_module(found.name)


def _functions(module: ModuleType) -> Iterator[CodeType]:
    """Yields the code of all functions that a module defines, generators and lambdas included."""
    seen: set[CodeType] = set()
    pending: list[object] = list(vars(module).values())
    while pending:
        found = pending.pop()
        if isinstance(found, type) and found.__module__ == module.__name__:
            pending += vars(found).values()
        inner = getattr(found, "__wrapped__", None)
        pending += [] if inner is None else [inner]
        for accessor in ("fget", "func", "__func__"):
            pending += [part] if (part := getattr(found, accessor, None)) is not None else []
        code = getattr(found, "__code__", None)
        if isinstance(code, CodeType) and code.co_filename == module.__file__:
            pending_codes = [code]
            while pending_codes:
                one = pending_codes.pop()
                if one not in seen and not _describes_only(one):
                    seen.add(one)
                    yield one
                pending_codes += [part for part in one.co_consts if isinstance(part, CodeType)]


def _describes_only(code: CodeType) -> bool:
    """Whether a function has nothing but a docstring and dots, as in a protocol."""
    plain = all(part is None or isinstance(part, str) for part in code.co_consts)
    return plain and not code.co_names and len(code.co_code) <= _TRIVIAL_BYTES


def lines_text(numbers: Collection[int]) -> str:
    """Returns numbers of lines for people: `3-7, 12`."""
    ordered, parts = sorted(numbers), list[str]()
    for number in ordered:
        if number - 1 not in numbers:
            last = number
            while last + 1 in numbers:
                last += 1
            parts.append(str(number) if last == number else f"{number}-{last}")
    return ", ".join(parts)
