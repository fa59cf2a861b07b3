"""What appears behind a reader: rows at positions that it has passed.

Where each partition has one producer at a time, nothing should. But files can be copied, and a program can write past the
fence; rows that nobody will ever read must not be lost in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holons.streams.segments.directory import StreamDirectory
from holons.streams.segments.segment import Extent


class _Look(NamedTuple):
    """What a reader saw when it last read a partition."""

    version: int
    """Of the stream: segments that appeared later are new."""
    read_to: int
    ends: Mapping[str, int]
    """By segment that could grow: up to where it held something of the partition."""


class Behind:
    """Remembers what a reader has seen of each partition."""

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def appeared(self, partition: int, stream: StreamDirectory, read_to: int) -> Iterator[Extent]:
        """Yields what has appeared behind what was read before; now the partition is read up to `read_to`."""
        ends = {segment.name: segment.extent(partition).end for segment in stream.live}
        last = self._looks.get(partition) or _Look(stream.version, 0, ends)
        self._looks[partition] = _Look(stream.version, max(read_to, last.read_to), ends)
        if last.ends == ends and last.version == stream.version:
            return
        names = {*last.ends, *ends}
        if stream.version != last.version:
            names.update(name for name, segment in stream.segments.items() if segment.since > last.version)
        for name in names & stream.segments.keys():
            segment = stream.segments[name]
            first, end = segment.after(partition, last.ends.get(name, 0))
            if first < min(end, last.read_to):
                yield Extent(first, min(end, last.read_to))
