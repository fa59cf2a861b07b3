"""`holons log`: look into the streams below a directory."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from holons.algebra import Keyed
from holons.arrow import python_rows
from holons.cli.messages import in_words
from holons.cli.terminal import Terminal
from holons.clock import SystemClock
from holons.errors import BadInput, DescribedError
from holons.names import decoded
from holons.streams import Chunk, ReadableLog, StreamDescription, StreamFolder
from holons.visible import visible
from holons.windows import instant_text

_READER = "holons-log#1"  # costs nothing: it never writes
_READ_ROWS = 100_000
_FOLLOW_S = 0.2
_WIDE = 10_000
"""Wider than any screen, to ask how wide a table would like to be."""

clock = SystemClock()


class StreamPlace(NamedTuple):
    """A stream, and where it is."""

    folder: StreamFolder
    stream: str
    label: str
    """What `ls` calls it: its directory below the one that was looked at, and its name."""

    def describe(self) -> StreamDescription:
        """Describes the stream as it is now."""
        return self.folder.describe(self.stream)


class Entry(NamedTuple):
    """A row, a mark or a message, and where it is: in a partition, or among its writer's own."""

    place: int | str
    offset: int
    row: dict[str, Any] | None = None
    mark: int | None = None
    message: str | None = None

    def record(self) -> dict[str, Any]:
        """For machines."""
        if self.message is not None:
            return {"writer": self.place, "position": self.offset, "message": self.message}
        what = {"mark": self.mark} if self.row is None else {"row": self.row}
        return {"partition": self.place, "offset": self.offset, **what}


def places(root: Path) -> list[StreamPlace]:
    """All streams below a directory, in the order of their labels."""
    if not root.is_dir():
        raise BadInput(f"there is no directory {root}", hint="name the directory that nodes and producers were given")
    streams = [
        StreamPlace(folder, stream, "/".join([*map(_readable, folder.path.relative_to(root).parts), stream]))
        for folder in StreamFolder.below(root)
        for stream in folder.names()
    ]
    return sorted(streams, key=lambda place: place.label)


def _readable(part: str) -> str:
    """Returns a directory's name as a user wrote it, if it is the encoded form of one."""
    return decoded(part) or part


def find(root: Path, name: str) -> StreamPlace:
    """Returns the stream with this label, or the only one whose label ends so."""
    known = places(root)
    exact = [place for place in known if place.label == name]
    matching = exact or [place for place in known if f"/{place.label}".endswith(f"/{name}")]
    if len(matching) == 1:
        return matching[0]
    labels = ", ".join(place.label for place in (matching or known)[:10])
    if matching:
        raise BadInput(f"{name!r} could be one of {len(matching)} streams", hint=f"say which: {labels}")
    hint = f"there is {labels}" if known else f"there are no streams below {root}: name their directory with --log"
    raise BadInput(f"there is no stream {name!r} below {root}", hint=hint)


# --- ls and stat ------------------------------------------------------------------------------------------------------


def ls(root: Path, json_file: Path | None) -> bool:
    """All streams below a directory; False if one of them is damaged."""
    listed: list[tuple[StreamPlace, StreamDescription | DescribedError]] = []
    for place in places(root):
        try:
            listed.append((place, place.describe()))
        except DescribedError as error:
            listed.append((place, error))
    if json_file is not None:
        with _lines(json_file) as file:
            for place, description in listed:
                _write(file, _ls_record(place, description))
    else:
        _show_ls(root, listed)
    return not any(isinstance(description, DescribedError) for _, description in listed)


def _ls_record(place: StreamPlace, description: StreamDescription | DescribedError) -> dict[str, Any]:
    if isinstance(description, DescribedError):
        return {"stream": place.label, "error": str(description)}
    return {
        "stream": place.label,
        "kind": "shared" if description.shared else "rows",
        "partitions": description.partitions,
        "entries": description.entries,
        "bytes": description.bytes_on_disk,
        "writers": list(description.writers),
    }


def _show_ls(root: Path, listed: Sequence[tuple[StreamPlace, StreamDescription | DescribedError]]) -> None:
    console = Terminal()
    if not listed:
        console.print(f"There are no streams below {root}.", markup=False)
        return
    console.print(_ls_table(root, listed, console))
    for place, description in listed:
        if isinstance(description, DescribedError):
            console.print(Text(f"{place.label}: {description.message}", "red"), soft_wrap=True)


_LS = ("stream", "partitions", "entries", "kind", "on disk", "writers")


def _ls_table(
    root: Path, listed: Sequence[tuple[StreamPlace, StreamDescription | DescribedError]], console: Console
) -> Table:
    """A table with the names whole: where it gets too wide, its last columns are left out, and then names are folded."""
    rows = [_ls_row(place, description) for place, description in listed]
    for count in range(len(_LS), 2, -1):
        table = Table(title=f"Streams below {root}", title_justify="left")
        for column in _LS[:count]:
            right = column in ("partitions", "entries", "on disk")
            wraps = column == "writers" or (column == "stream" and count == 3)
            table.add_column(column, justify="right" if right else "left", no_wrap=not wraps, overflow="fold")
        for row in rows:
            table.add_row(*(escape(cell) for cell in row[:count]), style="red" if row[3] == "damaged" else None)
        if Measurement.get(console, console.options.update(max_width=_WIDE), table).minimum <= console.width:
            break
    return table


def _ls_row(place: StreamPlace, description: StreamDescription | DescribedError) -> tuple[str, ...]:
    if isinstance(description, DescribedError):
        return place.label, "", "", "damaged"
    kind, partitions = ("shared", "") if description.shared else ("rows", str(description.partitions))
    return (
        place.label,
        partitions,
        f"{description.entries:,}",
        kind,
        decimal(description.bytes_on_disk),
        _few(description.writers),
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def stat(root: Path, name: str, time_column: str | None, json_file: Path | None) -> None:
    """Each partition, or each writer, of a stream; over which times, if the column is named or can be told from its type."""
    place = find(root, name)
    description = place.describe()
    records = [_shared_stat(description, writer) for writer in description.extents] if description.shared else []
    if not description.shared:
        with place.folder.open(place.stream, description.partitions, _READER) as log:
            time_column = time_column or _time_column(log)
            records = [_stat(log, partition, time_column) for partition in range(description.partitions)]
    if json_file is not None:
        with _lines(json_file) as file:
            for record in records:
                _write(file, record)
        return
    console = Terminal()
    console.print(f"{place.label}: {decimal(description.bytes_on_disk)} on disk", markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD)
    columns = ["writer", "start", "end"]
    if not description.shared:
        columns = [*_STAT, *(f"{end} {escape(visible(time_column or 'time'))}" for end in ("first", "last"))]
    for column in columns:
        table.add_column(column, justify="left" if column == "writer" else "right")
    for record in records:
        table.add_row(*(_cell(key, value) for key, value in record.items()))
    console.print(table)
    if any(record.get("rows") and record["first"] is None for record in records):
        named = f"has no times in {time_column!r}" if time_column else "has no column ts, and not one column of times"
        console.print(Text(f"{place.label} {named}: say which column has them, --time COLUMN"), soft_wrap=True)


def _time_column(log: ReadableLog) -> str | None:
    """Returns the column that probably has the event times: `ts`, or the only one of instants; None if there is none."""
    for partition in range(log.partitions):
        for chunk in _chunks(log, partition, log.start(partition), log.end(partition)):
            if chunk.rows is not None:
                schema = chunk.rows.schema
                instants = [field.name for field in schema if pa.types.is_timestamp(field.type)]
                return "ts" if "ts" in schema.names else instants[0] if len(instants) == 1 else None
    return None


_STAT = ("partition", "start", "end", "rows", "marks", "bytes")


def _cell(key: str, value: object) -> str:
    if value is None:
        return ""
    if key in ("first", "last"):
        return instant_text(value // 1000 * 1000) if isinstance(value, int) else str(value)  # the rest is in --json
    return decimal(int(str(value))) if key == "bytes" else escape(str(value))


def _shared_stat(description: StreamDescription, writer: int | str) -> dict[str, Any]:
    return {"writer": writer, "start": description.extents[writer].first, "end": description.extents[writer].end}


def _stat(log: ReadableLog, partition: int, time_column: str | None) -> dict[str, Any]:
    start, end = log.start(partition), log.end(partition)
    rows = marks = size = 0
    first: Any = None
    last: Any = None
    for chunk in _chunks(log, partition, start, end):
        if chunk.rows is None:
            marks += 1
            continue
        rows, size = rows + chunk.length, size + chunk.rows.nbytes
        if time_column in chunk.rows.schema.names:
            low, high = pc.min_max(chunk.rows.column(time_column)).as_py().values()
            first = low if first is None else first if low is None else min(first, low)
            last = high if last is None else last if high is None else max(last, high)
    numbers = (partition, start, end, rows, marks, size)
    return {**dict(zip(_STAT, numbers, strict=True)), "first": first, "last": last}


# --- head and tail ----------------------------------------------------------------------------------------------------


def show(
    root: Path,
    name: str,
    *,
    count: int,
    partition: int | None,
    offset: int | None,
    from_end: bool,
    follow: bool,
    json_file: Path | None,
) -> None:
    """Some entries of each partition, or of each writer; then, if so wanted, whatever follows."""
    place = find(root, name)
    description = place.describe()
    _check_partition(description, place, partition)
    begin: dict[int | str, int] = {}
    until: dict[int | str, int] = {}
    for key, extent in description.extents.items():
        if partition in (None, key):
            first = extent.end - count if from_end else extent.first
            begin[key] = max(extent.first, first if offset is None else offset)
            until[key] = extent.end if from_end and follow else min(extent.end, begin[key] + count)
    entries = list(_entries(place, description, begin, until))
    if json_file is not None:
        with _lines(json_file) as file:
            for entry in entries:
                _write(file, entry.record())
            for entry in _following(place, description, until) if follow else ():
                _write(file, entry.record())
                file.flush()
        return
    console = Terminal()
    if entries or not follow:
        console.print(f"{place.label}: {description.entries:,} entries", markup=False, highlight=False)
        console.print(_table(description, entries))
    for entry in _following(place, description, until) if follow else ():
        console.print(_line(entry), markup=False, highlight=False, soft_wrap=True)


def _check_partition(description: StreamDescription, place: StreamPlace, partition: int | None) -> None:
    if partition is None:
        return
    if description.shared:
        raise BadInput(f"{place.label} has no partitions: it is shared by its writers", hint="leave --partition out")
    if partition >= description.partitions:
        raise BadInput(f"{place.label} has no partition {partition}", hint=f"0 to {description.partitions - 1}")


def _entries(
    place: StreamPlace, description: StreamDescription, begin: dict[int | str, int], until: dict[int | str, int]
) -> Iterator[Entry]:
    if description.shared:
        with place.folder.open_shared(place.stream, _READER) as shared:
            for writer, at in begin.items():
                others = {name: extent.end for name, extent in description.extents.items() if name != writer}
                cursor = {str(name): end for name, end in others.items()} | {str(writer): at}
                for message in shared.read(cursor, max(0, until[writer] - at)):
                    if message.writer == writer:
                        words = in_words(place.stream, message.data)
                        yield Entry(message.writer, message.position, message=words)
        return
    with place.folder.open(place.stream, description.partitions, _READER) as log:
        for partition, at in begin.items():
            assert isinstance(partition, int)
            for chunk in _chunks(log, partition, at, until[partition]):
                yield from _of_chunk(partition, chunk)


def _chunks(log: ReadableLog, partition: int, at: int, end: int) -> Iterator[Chunk]:
    while at < end:
        chunks = log.read(partition, at, min(end - at, _READ_ROWS))
        if not chunks:
            return
        yield from chunks
        at = chunks[-1].end


def _of_chunk(partition: int, chunk: Chunk) -> Iterator[Entry]:
    if chunk.rows is None:
        yield Entry(partition, chunk.offset, mark=chunk.mark)
        return
    for place, row in enumerate(python_rows(chunk.rows)):
        yield Entry(partition, chunk.offset + place, row=row)


def _following(place: StreamPlace, description: StreamDescription, begin: dict[int | str, int]) -> Iterator[Entry]:
    """What comes from now on, until Ctrl-C."""
    at = dict(begin)
    with suppress(KeyboardInterrupt):
        while True:
            now = place.describe()
            until = {key: extent.end for key, extent in now.extents.items() if key in at or description.shared}
            yield from _entries(place, now, {key: at.get(key, now.extents[key].first) for key in until}, until)
            at |= until
            clock.sleep_s(_FOLLOW_S)


# --- telling ----------------------------------------------------------------------------------------------------------


def _table(description: StreamDescription, entries: Sequence[Entry]) -> Table:
    table = Table()
    if description.shared:
        table.add_column("writer")
        table.add_column("position", justify="right")
        table.add_column("message")
        for entry in entries:
            table.add_row(escape(str(entry.place)), str(entry.offset), escape(visible(entry.message or "")))
        return table
    names = list(dict.fromkeys(name for entry in entries for name in entry.row or ())) or [""]
    numbers = {
        name for name in names if all(isinstance((entry.row or {}).get(name, 0), int | float) for entry in entries)
    }
    table.add_column("partition", justify="right")
    table.add_column("offset", justify="right")
    for name in names:
        table.add_column(escape(visible(name)), justify="right" if name in numbers else "left")
    for entry in entries:
        if entry.row is None:
            cells = [f"[dim]mark: {instant_text(entry.mark or 0)}[/]"]
        else:
            cells = [escape(_text(entry.row.get(name))) for name in names]
        table.add_row(str(entry.place), str(entry.offset), *cells)
    return table


def _line(entry: Entry) -> str:
    if entry.message is not None:
        return f"{entry.place} {entry.offset}: {entry.message}"
    if entry.row is None:
        return f"{entry.place}:{entry.offset} mark: {instant_text(entry.mark or 0)}"
    return f"{entry.place}:{entry.offset} " + " ".join(f"{name}={_text(value)}" for name, value in entry.row.items())


def _text(value: object) -> str:
    return "null" if value is None else visible(str(value))


@contextmanager
def _lines(file: Path) -> Iterator[TextIO]:
    if str(file) == "-":
        yield sys.stdout
    else:
        with file.open("w") as opened:
            yield opened


def _write(file: TextIO, record: dict[str, Any]) -> None:
    file.write(json.dumps(plain(record)) + "\n")


def plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    """A value as JSON can hold it: bytes in hexadecimal, times as ISO 8601, sets sorted, keys of maps as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Keyed):
        value = value.to_dict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [plain(item) for item in sorted(value, key=repr)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
