"""A folder of streams, and the only place that says how streams are stored on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from holons.clock import Clock
from holons.disk import Durability
from holons.streams import segments

StoredLog: TypeAlias = segments.SegmentLog
StoredSharedLog: TypeAlias = segments.SegmentSharedLog
StreamDescription = segments.StreamDescription

_SEGMENT_BYTES: Final = 32 << 20


class StreamFolder:
    """A directory in which each stream has a directory of its own. A plain value, which can be pickled."""

    def __init__(self, path: Path | str, durability: Durability = "process", clock: Clock | None = None) -> None:
        """`durability`: what is acknowledged survives the death of any process, or that of the machine too. `clock` is
        another than the machine's, in tests.
        """
        self.path = Path(path)
        self.durability: Durability = durability
        self._clock = clock

    @classmethod
    def below(cls, root: Path) -> list[StreamFolder]:
        """Returns all folders of streams at or below a directory."""
        return [cls(path) for path in sorted({path.parent for path in root.rglob("stream.*") if path.is_dir()})]

    def names(self) -> list[str]:
        """Returns the names of all streams that were ever written here."""
        return segments.streams_in(self.path)

    def partitions(self, stream: str) -> int | None:
        """Returns how many partitions a stream has, 0 for a shared one; None if nothing of it is left, or ever was."""
        return segments.partitions_in(self.path, stream)

    def with_rows(self) -> dict[str, int]:
        """Returns the streams that hold rows, and how many partitions each has."""
        known = {stream: self.partitions(stream) for stream in self.names()}
        return {stream: partitions for stream, partitions in known.items() if partitions}

    def trimmer_of_the_silent(self, stream: str, name: str) -> Callable[[float], None]:
        """Returns what drops from a shared stream all of those who have been silent for so many seconds. It has a `name`."""
        return self.open_shared(stream, name).trim_silent

    def remove(self, stream: str) -> None:
        """Removes a stream with all that is in it, which nobody needs any more."""
        segments.remove(self.path, stream)

    def describe(self, stream: str) -> StreamDescription:
        """Returns what there is of a stream, for people; raises `BadInput` if there is no such stream."""
        return segments.describe(self.path, stream)

    def open(
        self, stream: str, partitions: int, writer: str, *, resume: bool = False, fenced: bool = False
    ) -> StoredLog:
        """Opens a stream of rows. `writer` is used once, by one process, or with `resume` by one process at a time.

        `fenced`: each partition has one producer at a time. It costs nothing until the first write, so whoever only reads
        may have any name.
        """
        return segments.SegmentLog(
            self.path,
            stream,
            partitions,
            writer,
            durability=self.durability,
            resume=resume,
            fenced=fenced,
            clock=self._clock,
        )

    def open_shared(
        self, stream: str, writer: str, *, segment_bytes: int = _SEGMENT_BYTES, if_damaged: str = "restore it"
    ) -> StoredSharedLog:
        """Opens a shared stream; for `writer` see `open`. `if_damaged` says in errors what to do with its directory then."""
        return segments.SegmentSharedLog(
            self.path,
            stream,
            writer,
            durability=self.durability,
            segment_bytes=segment_bytes,
            if_damaged=if_damaged,
            clock=self._clock,
        )
