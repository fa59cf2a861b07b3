"""How retention is said, and kept: in memory, or as small files of a site.

    <site>/retention/input/<stream>                     for how long rows are kept, in microseconds
    <site>/retention/output/<job>
    <site>/consumers/input/<stream>/<name>              by partition, the first offset that a consumer needs
    <site>/consumers/output/<version>/<channel>/<name>

Each file is written aside and then renamed, so a reader sees it whole.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from holons import disk
from holons.disk import unavailable
from holons.errors import LogDamaged, LogUnavailable
from holons.names import check_name, decoded, encoded
from holons.node import RetentionRules
from holons.windows import Duration, micros
from holons.wire import UNREADABLE

Kind: TypeAlias = Literal["input", "output"]
_PART: Final = ".part"
Value = TypeVar("Value")


class Retention(RetentionRules, Protocol):
    """For how long a site keeps inputs and outputs, and who reads them; what is said counts for all processes at once."""

    def keep_input(self, stream: str, duration: Duration | None) -> None:
        """Keeps the rows of an input stream for so long after they were appended; None: for ever.

        Rows that some job still needs stay longer, and so do those that a named consumer has not read.
        """
        ...

    def keep_output(self, job: str, duration: Duration | None) -> None:
        """Keeps what a job has emitted, in all of its channels and versions, for so long; None: for ever."""
        ...

    def consume(self, name: str, stream: str, positions: Sequence[int], *, version: str = "") -> None:
        """Says what a consumer needs of a stream: by partition, the first offset. For the first time, or again.

        `stream` is an input stream; with the `version` of a job, it is a channel of that.
        """
        ...

    def forget_consumer(self, name: str, stream: str, *, version: str = "") -> None:
        """Says that a consumer reads a stream no more."""
        ...


class MemoryRetention:
    """Retention in the memory of this process."""

    def __init__(self) -> None:
        self._kept: dict[Kind, dict[str, int]] = {"input": {}, "output": {}}
        self._consumers: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}

    def inputs(self) -> Mapping[str, int]:
        return dict(self._kept["input"])

    def outputs(self) -> Mapping[str, int]:
        return dict(self._kept["output"])

    def consumed(self, stream: str, version: str = "") -> Mapping[str, Sequence[int]]:
        return dict(self._consumers.get((version, stream), {}))

    def keep_input(self, stream: str, duration: Duration | None) -> None:
        self._keep("input", stream, duration)

    def keep_output(self, job: str, duration: Duration | None) -> None:
        self._keep("output", job, duration)

    def _keep(self, kind: Kind, name: str, duration: Duration | None) -> None:
        self._kept[kind].pop(name, None)
        if duration is not None:
            self._kept[kind][name] = micros(duration, zero_allowed=True)

    def consume(self, name: str, stream: str, positions: Sequence[int], *, version: str = "") -> None:
        self._consumers.setdefault((version, stream), {})[check_name("consumer", name)] = tuple(positions)

    def forget_consumer(self, name: str, stream: str, *, version: str = "") -> None:
        self._consumers.get((version, stream), {}).pop(name, None)


class DirectoryRetention:
    """Retention in the directory of a site."""

    def __init__(self, folder: Callable[[str, str], Path]) -> None:
        """`folder` is that of a site: it returns the directory of one part of it, under a name."""
        self._folder = folder

    def inputs(self) -> Mapping[str, int]:
        return self._kept("input")

    def outputs(self) -> Mapping[str, int]:
        return self._kept("output")

    def consumed(self, stream: str, version: str = "") -> Mapping[str, Sequence[int]]:
        return self._read(self._consumers(stream, version), list[int])

    def keep_input(self, stream: str, duration: Duration | None) -> None:
        self._keep("input", check_name("stream", stream), duration)

    def keep_output(self, job: str, duration: Duration | None) -> None:
        self._keep("output", check_name("job", job), duration)

    def consume(self, name: str, stream: str, positions: Sequence[int], *, version: str = "") -> None:
        self._write(self._consumers(stream, version) / encoded(check_name("consumer", name)), list(positions))

    def forget_consumer(self, name: str, stream: str, *, version: str = "") -> None:
        (self._consumers(stream, version) / encoded(name)).unlink(missing_ok=True)

    # --- files --------------------------------------------------------------------------------------------------------

    def _kept(self, kind: Kind) -> Mapping[str, int]:
        return self._read(self._folder("retention", kind), int)

    def _keep(self, kind: Kind, name: str, duration: Duration | None) -> None:
        file = self._folder("retention", kind) / encoded(name)
        if duration is None:
            file.unlink(missing_ok=True)
        else:
            self._write(file, micros(duration, zero_allowed=True))

    def _consumers(self, stream: str, version: str) -> Path:
        if not version:
            return self._folder("consumers", "input") / encoded(stream)
        return self._folder("consumers", "output") / encoded(version) / encoded(stream)

    def _write(self, file: Path, value: object) -> None:
        with unavailable(LogUnavailable, f"write {file}"):
            disk.make_folder(file.parent)
            part = file.with_name(f".{uuid.uuid4().hex}{_PART}")
            disk.write(part, json.dumps(value).encode())
            part.replace(file)

    def _read(self, folder: Path, kind: type[Value]) -> dict[str, Value]:
        """Returns what the files of a folder say, by the names that theirs stand for."""
        found = {}
        with unavailable(LogUnavailable, f"read {folder}"):
            for file in sorted(folder.glob("[!.]*")):
                with suppress(FileNotFoundError):  # just taken back
                    found[_name_of(file)] = _value(file, kind)
        return found


def _name_of(file: Path) -> str:
    name = decoded(file.name)
    if name is None:
        raise _damaged(file)
    return name


def _value(file: Path, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except UNREADABLE as error:
        raise _damaged(file) from error


def _damaged(file: Path) -> LogDamaged:
    return LogDamaged(f"{file} says nothing about retention", hint="remove it, and say it again: holons retain")
