"""A stream's directory: which segments there are, what they hold, and below where everything was dropped.

    <directory>/stream.<stream>/
        segment.<writer>.<number>.<token>/      written by one writer incarnation only
            index  data.arrows                  data.messages in a shared stream
            open  counted                       whether its writer may add to it, and what counts once it may not
        floor.<name>.<offset>                   an empty file: below this offset nothing is there any more
        partitions.<number>                     an empty file: how many there are, should no segment be left
        epochs/<partition>.<number>             who may append, where each partition has one producer (`epochs.py`)

Segments appear by a rename and disappear by a rename, whole. Whoever removes `open` ends a segment: a writer looks for
it after every write, and if it is gone, writes the same entries once more into a new segment. So a trimmer that first
removes `open`, then looks what the segment holds, then deletes it, can lose nothing, and nobody waits for anybody.

Floors are names of empty files: they appear at once, the highest counts, and no stopped process can hold them.

The floor of a writer of a shared stream goes ten minutes after all of it was trimmed, once somebody has seen for one
that nothing else is left of it. So a reader that stood still for half a minute cannot rely on floors, and writers look
for their own before they begin another segment.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from holons import disk
from holons.clock import Clock, SystemClock
from holons.errors import LogDamaged
from holons.names import decoded, encoded
from holons.streams.segments.files import OpenFile, SegmentGone, damaged
from holons.streams.segments.segment import Segment

EPOCHS_FOLDER: Final = "epochs"
_CHANGE_TIME_GRAIN_S: Final = 0.02  # two changes of a directory within this time may bear the same time
_LIST_EVERY_S: Final = 1.0
_TRIES: Final = 20
_LEFTOVER_AGE_S: Final = 60.0  # a segment that was begun so long ago, and has not appeared, never will
_FORGOTTEN_AGE_US: Final = 600_000_000
_PARTITIONS: Final = "partitions"

Result = TypeVar("Result")


def name_of(path: Path, stem: str) -> str:
    """Returns the name that a part of a file's name stands for; raises `LogDamaged` if we would write no name so."""
    name = decoded(stem)
    if name is None:
        raise damaged(path, "it is not one of ours, or an older version wrote it")
    return name


def streams_in(directory: Path | str) -> list[str]:
    """Returns the names of all streams that were ever written to a directory."""
    prefix = "stream."
    return sorted(name_of(path, path.name.removeprefix(prefix)) for path in Path(directory).glob(f"{prefix}*"))


def partitions_in(directory: Path | str, stream: str) -> int | None:
    """Returns how many partitions a stream has, as its segments say, 0 for a shared one; None if nothing of it is left."""
    path = Path(directory) / f"stream.{encoded(stream)}"
    for segment in sorted(path.glob("segment.*")):
        try:
            return Segment(segment, 0, SystemClock()).header.partitions
        except SegmentGone:  # trimmed just now
            continue
        except LogDamaged as error:
            error.where = {"stream": stream} | error.where
            raise
    kept = [file.name.rpartition(".")[2] for file in path.glob(f"{_PARTITIONS}.*")]
    return int(kept[0]) if kept and kept[0].isdecimal() else None


def remove(directory: Path | str, stream: str) -> None:
    """Removes a stream as a whole. Who still writes to it begins it anew."""
    name = f"stream.{encoded(stream)}"
    gone = Path(directory) / f".gone.{name}.{uuid.uuid4().hex[:8]}"
    with suppress(FileNotFoundError):
        (Path(directory) / name).rename(gone)
    for left in Path(directory).glob(".gone.stream.*"):
        shutil.rmtree(left, ignore_errors=True)


def _floor_names(names: set[str]) -> set[str]:
    return {name.removeprefix("floor.").rpartition(".")[0] for name in names if name.startswith("floor.")}


class StreamDirectory:
    """The segments and floors of one stream, as this process sees them."""

    def __init__(
        self,
        directory: Path,
        stream: str,
        partitions: int,
        clock: Clock,
        if_damaged: str = "restore it",
        *,
        durable: bool = False,
    ) -> None:
        """`if_damaged`: what to do with the directory if it is damaged, for errors. `durable`: what is changed survives the
        machine.
        """
        self.path = Path(os.path.realpath(directory)) / f"stream.{encoded(stream)}"
        self.stream = stream
        self.partitions = partitions
        self.clock = clock
        self.durable = durable
        self.segments: dict[str, Segment] = {}
        self.version = 0
        """Grows whenever a segment or a floor appears or goes, or a segment can no longer grow."""
        self.live: list[Segment] = []
        """The segments that may still grow."""
        self.floors: dict[str, int] = {}
        """By `stem`: below this offset nothing is there any more."""
        self._if_damaged = if_damaged
        self._file = OpenFile(self.path)
        self._stat_seen: tuple[int, ...] | None = None
        self._unsettled_until_s = 0.0
        self._listed_s = 0.0
        self._leftovers_since_s: dict[str, float] = {}
        self._floors_alone_since_s: dict[str, float] = {}

    # --- looking ------------------------------------------------------------------------------------------------------

    def refresh(self, *, relist: bool = False) -> None:
        """Notices what was published, by anyone, before this call."""
        try:
            self._look(relist=relist)
        except LogDamaged as error:
            raise self._named(error)  # noqa: B904 - the same error

    def _look(self, *, relist: bool) -> None:
        """Notices what was published.

        The directory is listed only if its time of change moved, for a moment after that (the file system's clock is
        coarse), and every second to be sure.
        """
        stat, now_s = self._stat(), self.clock.now_s()
        if stat != self._stat_seen:
            self._stat_seen, self._unsettled_until_s, relist = stat, now_s + _CHANGE_TIME_GRAIN_S, True
        if relist or self._listed_s <= self._unsettled_until_s or now_s - self._listed_s > _LIST_EVERY_S:
            self._list(now_s)
        try:
            for segment in self.live:
                segment.poll()
        except SegmentGone:
            self._look(relist=True)
            return
        # those that had ended before this poll have now been seen to their end
        growing = [segment for segment in self.live if not (segment.ended and segment.settled())]
        if len(growing) < len(self.live):
            self.live = growing
            self.version += 1

    def consistently(self, work: Callable[[], Result | None], **where: object) -> Result:
        """Returns what `work` makes of what is there now; it says None if something is missing, and is then tried again.

        Each segment is read at a moment of its own. So a row may be seen and an earlier one of another writer not, or
        a segment may be trimmed between being listed and being read. One more look settles both.
        """
        for attempt in range(_TRIES):
            self.refresh(relist=attempt > 0)
            try:
                result = work()
            except SegmentGone:
                continue
            except LogDamaged as error:
                raise self._named(error)  # noqa: B904 - the same error
            if result is not None:
                return result
        what = "something is missing: a segment was deleted by hand, or lost"
        raise self._named(LogDamaged(what, hint="", **where))

    def _named(self, error: LogDamaged) -> LogDamaged:
        """Says in an error which stream is damaged, and what to do."""
        error.where = {"stream": self.stream} | error.where
        error.hint = f"{self._if_damaged}: {self.path}"
        return error

    def floor(self, name: str) -> int:
        """Returns the offset below which nothing is there any more; the name is an encoded one."""
        return self.floors.get(name, 0)

    def of(self, writer: str) -> list[Segment]:
        """Returns the segments of a writer, oldest first."""
        own = [segment for segment in self.segments.values() if segment.writer == writer]
        return sorted(own, key=lambda segment: segment.number)

    def close(self) -> None:
        """Forgets everything, and closes the files. The next refresh begins anew."""
        self.segments, self.live, self.floors, self._stat_seen = {}, [], {}, None
        self.version += 1
        self._file.close()

    def _stat(self) -> tuple[int, ...] | None:
        """Returns what changes when a name appears or goes; asked by descriptor, which costs a third of asking by path."""
        try:
            descriptor = self._file.descriptor()
        except FileNotFoundError:
            return None
        stat = os.fstat(descriptor.number)
        if not stat.st_nlink:  # deleted, and perhaps made anew
            self._file.close()
        return stat.st_mtime_ns, stat.st_ino, stat.st_nlink

    def _list(self, now_s: float) -> None:
        names = set(self._names())
        if not self.floors.keys() <= _floor_names(names):
            self._drop_floors(_floor_names(names | set(self._names())))
        segments = {name: segment for name, segment in self.segments.items() if name in names}
        for name in sorted(names - segments.keys()):
            kind, _, rest = name.partition(".")
            if kind == "segment":
                try:
                    segments[name] = self._opened(name)
                except SegmentGone:
                    self._stat_seen = None
            elif kind == "floor":
                self._note_floor(rest)
            elif kind and kind != _PARTITIONS and name != EPOCHS_FOLDER:
                raise damaged(self.path / name, "it is not one of ours")
        if segments.keys() != self.segments.keys():
            self._adopt(segments)
        for segment in self.live:
            segment.ended |= not segment.is_open()
        self._listed_s = now_s

    def _adopt(self, segments: dict[str, Segment]) -> None:
        newest: dict[str, int] = {}
        for segment in segments.values():
            newest[segment.writer] = max(newest.get(segment.writer, 0), segment.number)
        for segment in segments.values():
            segment.ended |= segment.number < newest[segment.writer]
        fresh = segments.keys() - self.segments.keys()
        growing = {segment.name for segment in self.live}
        self.live = [segment for segment in segments.values() if segment.name in growing or segment.name in fresh]
        self.segments = segments
        self.version += 1
        for name in fresh:
            segments[name].since = self.version

    def _opened(self, name: str) -> Segment:
        parts = name.rsplit(".", 2)
        if len(parts) != 3 or not parts[1].isdigit():
            raise damaged(self.path / name, "it is not one of ours")
        segment = Segment(self.path / name, int(parts[1]), self.clock, durable=self.durable)
        header = segment.header
        if (header.stream, header.partitions) != (self.stream, self.partitions):
            raise damaged(
                segment.directory,
                f"it belongs to stream {header.stream!r} with {header.partitions} partitions, "
                f"not to {self.stream!r} with {self.partitions}",
            )
        return segment

    def _note_floor(self, text: str) -> None:
        name, _, offset = text.rpartition(".")
        if not name or not offset.isdigit():
            raise damaged(self.path / f"floor.{text}", "it is not one of ours")
        if int(offset) > self.floor(name):
            self.floors[name] = int(offset)
            self.version += 1

    def _drop_floors(self, present: set[str]) -> None:
        """Forgets the floors of which two lists have nothing: one alone may miss a floor that is being raised."""
        self.floors = {stem: offset for stem, offset in self.floors.items() if stem in present}
        self.version += 1

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.path) as entries:
                yield from (entry.name for entry in entries)
        except FileNotFoundError:
            return

    # --- trimming -----------------------------------------------------------------------------------------------------

    def raise_floor(self, name: str, offset: int) -> None:
        """Declares that below an offset nothing is there any more."""
        if offset <= self.floor(name):
            return
        prefix = f"floor.{name}."
        now_us = self.clock.utc_us()
        if self.partitions:  # should the last segment go that says so
            disk.write(self.path / f"{_PARTITIONS}.{self.partitions}")
        disk.write(self.path / f"{prefix}{offset}")
        os.utime(self.path / f"{prefix}{offset}", ns=(now_us * 1_000, now_us * 1_000))
        self._note_floor(f"{name}.{offset}")
        if self.durable:
            disk.sync(self.path)
        for other in list(self._names()):
            rest = other.removeprefix(prefix)
            if rest != other and rest.isdigit() and int(rest) < offset:
                (self.path / other).unlink(missing_ok=True)

    def forget_floors(self, kept: Collection[str]) -> None:
        """Removes old floors but for those of `kept` names, of which something else is there. Only in shared streams."""
        now_s, oldest_us = self.clock.now_s(), self.clock.utc_us() - _FORGOTTEN_AGE_US
        known, self._floors_alone_since_s = self._floors_alone_since_s, {}
        for stem in self.floors.keys() - kept:
            since_s = self._floors_alone_since_s[stem] = known.get(stem, now_s)
            file = self.path / f"floor.{stem}.{self.floors[stem]}"
            with suppress(FileNotFoundError):
                if now_s - since_s >= _LEFTOVER_AGE_S and file.stat().st_mtime_ns < oldest_us * 1_000:
                    file.unlink()

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
        leftovers = [name for name in self._names() if name.startswith(".")]
        self._leftovers_since_s = {name: self._leftovers_since_s.get(name, now_s) for name in leftovers}
        for name, since_s in self._leftovers_since_s.items():
            if name.startswith(".gone.") or now_s - since_s >= _LEFTOVER_AGE_S:
                shutil.rmtree(self.path / name, ignore_errors=True)
        self.refresh()

    def _delete(self, segment: Path) -> None:
        gone = self.path / f".gone.{segment.name}"
        try:
            segment.rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)
