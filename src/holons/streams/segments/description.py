"""What a stream's directory holds, for people: nothing is opened for writing, and nothing need be known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holons.clock import SystemClock
from holons.errors import BadInput
from holons.names import encoded
from holons.streams.segments.directory import StreamDirectory, name_of, partitions_in
from holons.streams.segments.segment import Extent

_BLOCK_BYTES = 512


@dataclass(frozen=True)
class StreamDescription:
    """What is left of a stream. One of rows has partitions; in a shared one every writer has positions of its own."""

    stream: str
    partitions: int
    """0 for a shared stream, and for one of which nothing is left."""
    writers: tuple[str, ...]
    """Who wrote what is still there."""
    extents: Mapping[int | str, Extent]
    """By partition, or by writer: the first offset that is there, and the one behind the last."""
    bytes_on_disk: int

    @property
    def shared(self) -> bool:
        return self.partitions == 0

    @property
    def entries(self) -> int:
        """How many rows and marks, or messages, are there."""
        return sum(extent.end - extent.first for extent in self.extents.values())


def describe(directory: Path | str, stream: str) -> StreamDescription:
    """Describes what is left of a stream; how many partitions it has comes from its segments' headers."""
    path = Path(directory) / f"stream.{encoded(stream)}"
    if not path.is_dir():
        raise BadInput(f"there is no stream {stream!r} in {directory}", hint="holons log ls lists the streams")
    held = StreamDirectory(Path(directory), stream, partitions_in(directory, stream) or 0, SystemClock())
    return held.consistently(lambda: _described(held))


def _described(held: StreamDirectory) -> StreamDescription:
    segments = list(held.segments.values())
    extents: dict[int | str, Extent] = {}
    if held.partitions:
        for partition in range(held.partitions):
            ends = [segment.extent(partition).end for segment in segments]
            extents[partition] = _extent(held.floor(str(partition)), ends)
    else:
        names = {segment.writer for segment in segments} | {name_of(held.path, trimmed) for trimmed in held.floors}
        for writer in sorted(names):
            ends = [segment.extent(0).end for segment in segments if segment.writer == writer]
            extents[writer] = _extent(held.floor(encoded(writer)), ends)
    return StreamDescription(
        stream=held.stream,
        partitions=held.partitions,
        writers=tuple(sorted({segment.writer for segment in segments})),
        extents=extents,
        bytes_on_disk=sum(_bytes_of(file) for file in held.path.rglob("*")),
    )


def _extent(floor: int, ends: list[int]) -> Extent:
    return Extent(floor, max(floor, *ends, 0))


def _bytes_of(file: Path) -> int:
    try:
        return file.stat().st_blocks * _BLOCK_BYTES
    except FileNotFoundError:
        return 0
