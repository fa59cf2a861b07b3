"""A stream's directory: which segments there are, what they hold, and below where everything was dropped.

    <directory>/stream.<stream>/
        segment.<writer>.<number>.<token>/      one LMDB environment, written by one writer incarnation only
            data.mdb  lock.mdb
            open                                as long as its writer may add to it
        floor.<name>.<offset>                   an empty file: below this offset nothing is there any more

Segments appear by a rename and disappear by a rename, whole. Whoever removes `open` ends a segment: a writer looks for
it after every commit, and if it is gone, writes the same entries once more into a new segment. So a trimmer that first
removes `open`, then looks what the segment holds, then deletes it, can lose nothing, and nobody waits for anybody.

Floors are names of empty files: they appear at once, the highest counts, and no stopped process can hold them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from holons import codec
from holons.clock import Clock, SystemClock
from holons.errors import BadInput, CodecError, LogDamaged
from holons.streams.lmdb import values
from holons.streams.lmdb.environment import SegmentGone, damaged
from holons.streams.lmdb.segment import Segment

_MAGIC: Final = "holons log"
_STEM_CHARACTERS_MAX: Final = 180
_SETTLE_S: Final = 0.02
_RELIST_S: Final = 1.0
_TRIES: Final = 20
_LITTER_S: Final = 60.0  # a segment that was begun so long ago, and is not there yet, never will be

Result = TypeVar("Result")


class Header(NamedTuple):
    """What the first record of every segment says."""

    stream: str
    partitions: int
    """0 for a shared stream."""
    writer: str

    def entry(self) -> dict[bytes, bytes]:
        """The record."""
        body = codec.encode((_MAGIC, values.FORMAT, *self))
        return {values.key(values.HEADER_PARTITION, 0): values.value(values.HEADER, values.HEADER_PARTITION, 0, body)}


def read_header(segment: Segment) -> Header:
    """What a segment says of itself, checked to be ours."""
    try:
        body = segment.header()
        fields: Any = (None,) * 5 if body is None else codec.decode(body)
        magic, version, stream, partitions, writer = fields
    except (CodecError, TypeError, ValueError) as error:
        raise damaged(segment.directory, f"its header cannot be read: {error}") from error
    if magic != _MAGIC:
        raise damaged(segment.directory, "it has no header of ours")
    if version not in values.FORMATS:
        raise damaged(segment.directory, f"it has format {version}, and this version reads {values.FORMATS}")
    return Header(stream, partitions, str(writer))


def stem(name: str) -> str:
    """A name as a part of a file's name; `name_of` turns it back.

    >>> stem("node/a#17"), name_of("node%2Fa#17")
    ('node%2Fa#17', 'node/a#17')
    """
    quoted = quote(name, safe="#")
    if not 0 < len(quoted) <= _STEM_CHARACTERS_MAX:
        raise BadInput(
            f"{name!r} cannot be a part of a file's name",
            hint=f"names of streams and writers have 1 to {_STEM_CHARACTERS_MAX} characters; others than letters, "
            "digits, '_', '-', '~' and '#' count three times or more",
        )
    return quoted


def name_of(stem: str) -> str:
    """The name that a stem stands for."""
    return unquote(stem)


def streams_in(directory: Path | str) -> list[str]:
    """The names of all streams that were ever written below a directory."""
    prefix = "stream."
    return sorted(name_of(path.name.removeprefix(prefix)) for path in Path(directory).glob(f"{prefix}*"))


def partitions_in(directory: Path | str, stream: str) -> int | None:
    """How many partitions a stream has, as its segments say, 0 for a shared one; None if there is nothing of it."""
    path = Path(os.path.realpath(directory)) / f"stream.{stem(stream)}"  # LMDB must not be opened twice, by two names
    for segment in sorted(path.glob("segment.*")):
        with suppress(SegmentGone):  # trimmed just now
            return read_header(Segment(segment, 0, SystemClock())).partitions
    return None


class StreamDirectory:
    """The segments and floors of one stream, as this process sees them."""

    def __init__(self, directory: Path, stream: str, partitions: int, clock: Clock) -> None:
        self.path = Path(os.path.realpath(directory)) / f"stream.{stem(stream)}"
        self.stream = stream
        self.partitions = partitions
        self.clock = clock
        self.segments: dict[str, Segment] = {}
        self.version = 0
        """Grows whenever a segment or a floor appears or goes, or a segment can no longer grow."""
        self.live: list[Segment] = []
        """The segments that may still grow."""
        self.floors: dict[str, int] = {}
        """By `stem`: below this offset nothing is there any more."""
        self._seen: tuple[int, ...] | None = None
        self._settled_s = 0.0
        self._listed_s = 0.0
        self._litter_since_s: dict[str, float] = {}

    # --- looking ------------------------------------------------------------------------------------------------------

    def refresh(self, *, relist: bool = False) -> None:
        """Notices what was committed, by anyone, before this call.

        The directory is listed only if its time of change moved, for a moment after that (the file system's clock is
        coarse), and every second to be sure.
        """
        seen, now_s = self._stat(), self.clock.now_s()
        if seen != self._seen:
            self._seen, self._settled_s, relist = seen, now_s + _SETTLE_S, True
        if relist or self._listed_s <= self._settled_s or now_s - self._listed_s > _RELIST_S:
            self._list(now_s)
        try:
            for segment in self.live:
                segment.poll()
        except SegmentGone:
            self.refresh(relist=True)
            return
        # those that had ended before this poll have now been seen to their end
        growing = [segment for segment in self.live if not segment.ended]
        if len(growing) < len(self.live):
            self.live = growing
            self.version += 1

    def consistently(self, work: Callable[[], Result | None], **where: object) -> Result:
        """What `work` finds in what is there now; it says None if something is missing, and is then tried again.

        Each segment is read at a moment of its own. So a row may be seen and an earlier one of another writer not, or
        a segment may be trimmed between being listed and being read. One more look settles both.
        """
        for attempt in range(_TRIES):
            self.refresh(relist=attempt > 0)
            try:
                found = work()
            except SegmentGone:
                continue
            if found is not None:
                return found
        raise LogDamaged(
            f"something is missing from stream {self.stream!r}",
            hint=f"a segment was deleted by hand, or lost: restore {self.path}",
            **where,
        )

    def floor(self, name: str) -> int:
        """Below this nothing is there any more; the name is a `stem`."""
        return self.floors.get(name, 0)

    def of(self, writer: str) -> list[Segment]:
        """The segments of a writer, oldest first."""
        found = [segment for segment in self.segments.values() if segment.writer == writer]
        return sorted(found, key=lambda segment: segment.number)

    def _stat(self) -> tuple[int, ...] | None:
        try:
            stat = os.stat(self.path)  # noqa: PTH116 - on every read, and half the cost
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_nlink

    def _list(self, now_s: float) -> None:
        names = set(self._names())
        known = {name: segment for name, segment in self.segments.items() if name in names}
        for name in sorted(names - known.keys()):
            kind, _, rest = name.partition(".")
            if kind == "segment":
                try:
                    known[name] = self._opened(name)
                except SegmentGone:
                    self._seen = None
            elif kind == "floor":
                self._note_floor(rest)
            elif kind:
                raise damaged(self.path / name, "it is not one of ours")
        if known.keys() != self.segments.keys():
            self._adopt(known)
        for segment in self.live:
            segment.ended |= not segment.is_open()
        self._listed_s = now_s

    def _adopt(self, segments: dict[str, Segment]) -> None:
        newest: dict[str, int] = {}
        for segment in segments.values():
            newest[segment.writer] = max(newest.get(segment.writer, 0), segment.number)
        fresh = segments.keys() - self.segments.keys()
        for segment in segments.values():
            segment.ended |= segment.number < newest[segment.writer]
        growing = {segment.name for segment in self.live}
        self.live = [segment for segment in segments.values() if segment.name in growing or segment.name in fresh]
        self.segments = segments
        self.version += 1

    def _opened(self, name: str) -> Segment:
        parts = name.rsplit(".", 2)
        if len(parts) != 3 or not parts[1].isdigit():
            raise damaged(self.path / name, "it is not one of ours")
        segment = Segment(self.path / name, int(parts[1]), self.clock)
        segment.writer = self._check_header(segment)
        segment.stem = stem(segment.writer)
        return segment

    def _check_header(self, segment: Segment) -> str:
        header = read_header(segment)
        if (header.stream, header.partitions) != (self.stream, self.partitions):
            raise damaged(
                segment.directory,
                f"it belongs to stream {header.stream!r} with {header.partitions} partitions, "
                f"not to {self.stream!r} with {self.partitions}",
            )
        return header.writer

    def _note_floor(self, text: str) -> None:
        name, _, offset = text.rpartition(".")
        if not name or not offset.isdigit():
            raise damaged(self.path / f"floor.{text}", "it is not one of ours")
        if int(offset) > self.floor(name):
            self.floors[name] = int(offset)
            self.version += 1

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.path) as entries:
                yield from (entry.name for entry in entries)
        except FileNotFoundError:
            return

    def close(self) -> None:
        """Forgets everything; environments that nobody else uses are closed. The next refresh begins anew."""
        self.segments, self.live, self.floors, self._seen = {}, [], {}, None
        self.version += 1

    # --- trimming -----------------------------------------------------------------------------------------------------

    def raise_floor(self, name: str, offset: int, *, sync: bool) -> None:
        """Declares that below an offset nothing is there any more."""
        if offset <= self.floor(name):
            return
        mine = f"floor.{name}."
        (self.path / f"{mine}{offset}").touch()
        self._note_floor(f"{name}.{offset}")
        if sync:
            sync_directory(self.path)
        for other in list(self._names()):
            rest = other.removeprefix(mine)
            if rest != other and rest.isdigit() and int(rest) < offset:
                (self.path / other).unlink(missing_ok=True)

    def sweep(self, needless: Callable[[Segment], bool], idle_s: float) -> None:
        """Deletes the segments that nobody needs, and what interrupted processes left behind.

        A segment that its writer may still add to is left alone until it has not grown for `idle_s`: a writer that
        died never ends its last segment itself, and one that lives on merely begins another.
        """
        now_s = self.clock.now_s()
        for segment in list(self.segments.values()):
            try:
                if needless(segment) and (now_s - segment.grown_s >= idle_s or not segment.is_open()):
                    segment.end()
                    segment.poll()
                    if needless(segment):
                        self._delete(segment.directory)
            except SegmentGone:  # somebody else was faster
                continue
        litter = [name for name in self._names() if name.startswith(".")]
        self._litter_since_s = {name: self._litter_since_s.get(name, now_s) for name in litter}
        for name, since_s in self._litter_since_s.items():
            if name.startswith(".gone.") or now_s - since_s >= _LITTER_S:
                shutil.rmtree(self.path / name, ignore_errors=True)
        self.refresh()

    def _delete(self, segment: Path) -> None:
        gone = self.path / f".gone.{segment.name}"
        try:
            segment.rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)


def sync_directory(path: Path) -> None:
    """Makes sure that the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
