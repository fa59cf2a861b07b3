"""The format `holons`: streams and outputs of a site as DataFrames, in batches and as streams, to be read and written.

    spark.read.format("holons").load("site", stream="bids")
    spark.readStream.format("holons").load("site", job="shares")
    df.writeStream.format("holons").option("stream", "bids").option("checkpointLocation", "...").start("site")
    df.write.format("holons").mode("append").option("stream", "bids").save("site")

`reading.py` and `writing.py` do the work; here is what can be asked for, checked before anything runs.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holons.disk import Durability
from holons.engines.batches import Batches
from holons.engines.collecting import fold_id
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.reading import OFFSET, PARTITION, BatchReader, Reading, SiteStream, StreamReader
from holons.engines.spark.writing import BatchWriter, StreamWriter, Writing
from holons.errors import BadInput
from holons.names import check_name
from holons.node import SiteWithFolders, no_such_input
from holons.program.outputs import DEAD, LATE
from holons.streams import ReadableLog
from holons.windows import instant

_LOOK_ROWS = 1_000
_KNOWN = {
    "path": "the site's directory",
    "stream": "an input stream of the site",
    "job": "a job whose output is read",
    "channel": "which of its outputs; needless if there is one beside late and dead rows",
    "positions": "true: adds the columns _partition and _offset",
    "starting": 'where to begin: "earliest", "latest", an instant (2026-01-31T12:00), or offsets {"0": 17, "1": 4}',
    "time": "the column of event time, for an instant as a start, and for sorting; by default ts",
    "maxRowsPerTrigger": "at most so many rows in a micro-batch",
    "rowsPerTask": "about so many rows for each task of a batch; by default 2.5 million",
    "partitions": "how many partitions a new stream gets; by default one",
    "partitionColumn": "an integer column, modulo the number of partitions: where each row goes",
    "sorted": "false: rows are not sorted by time before they are appended",
    "durability": '"disk": what is written survives the death of the machine; by default, of any process',
    "txnAppId": "with txnVersion: a batch that is written again under the same names is there once",
    "txnVersion": "a number that grows with every batch of a txnAppId",
}
_NAMES = {"stream": "stream", "job": "job", "channel": "channel", "txnAppId": "batch's source"}
_SPARKS_OWN = ("checkpointlocation", "queryname")


class HolonsSource(DataSource):
    """`format("holons")`, found without registration."""

    @classmethod
    def name(cls) -> str:
        return "holons"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = SourceOptions.of(options)

    def schema(self) -> StructType:
        return self._options.schema()

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(self._options.reading(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(self._options.reading(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise BadInput("a stream is never overwritten", hint='use .mode("append"), or write to another stream')
        values = self._options.values
        if ("txnAppId" in values) != ("txnVersion" in values):
            raise BadInput("txnAppId and txnVersion belong together", hint="give both, or neither")
        number = self._options.number("txnVersion", None)
        return BatchWriter(self._options.writing(schema), values.get("txnAppId", ""), number)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        if overwrite:
            raise BadInput(
                "a stream of rows is appended to, and never replaced",
                hint='use .outputMode("append"); an aggregate needs a watermark for that',
            )
        return StreamWriter(self._options.writing(schema))


@dataclass(frozen=True)
class SourceOptions:
    """What was asked for, by its right name."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Takes options in any case; one that is unknown is an error, and not silence."""
        names = {name.lower(): name for name in _KNOWN}
        values = {}
        for key, value in options.items():
            if key.lower() in _SPARKS_OWN:
                continue
            if key.lower() not in names:
                raise BadInput(f"there is no option {key!r}", hint=f"there are {', '.join(_KNOWN)}")
            values[names[key.lower()]] = value
        if "path" not in values:
            raise BadInput("which site?", hint='.load("directory"), or .save("directory"), or .start("directory")')
        if ("stream" in values) == ("job" in values):
            raise BadInput(
                "which stream?", hint='.option("stream", "bids"), or .option("job", "shares") for its output'
            )
        for name, what in _NAMES.items():
            if name in values:
                check_name(what, values[name])
        return cls(values)

    def number(self, name: str, default: int | None, least: int = 0) -> int | None:
        """An option that is a number."""
        if name not in self.values:
            return default
        try:
            number = int(self.values[name])
        except ValueError:
            number = least - 1
        if number < least:
            raise BadInput(f"{name} is {self.values[name]!r}", hint=f"{_KNOWN[name]}: a number from {least} on")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """An option that is true or false."""
        value = self.values.get(name, str(default)).lower()
        if value not in ("true", "false"):
            raise BadInput(f"{name} is {self.values[name]!r}", hint=f"true or false; {_KNOWN[name]}")
        return value == "true"

    # --- what is meant -----------------------------------------------------------------------------------------------

    @property
    def site(self) -> SiteWithFolders:
        durability = cast(Durability, self.values.get("durability", "process"))  # the site has a look at it
        return DirectorySite(Path(self.values["path"]).absolute(), durability=durability)

    def place(self) -> SiteStream:
        """Returns the stream that is meant; raises `BadInput` if the site has no such stream."""
        site = self.site
        if "stream" in self.values:
            stream = self.values["stream"]
            if stream not in site.streams():
                raise no_such_input(site.name, stream, site.streams())
            return SiteStream(site, stream, None, site.streams()[stream])
        job, channel, partitions = self._output()
        return SiteStream(site, f"{job}/{channel}", (job, channel), partitions)

    def _output(self) -> tuple[str, str, int]:
        """Returns the newest version of a job, one of its channels, and how many partitions that has."""
        name, site = self.values["job"], self.site
        versions = [version.id for version in site.jobs().history(name)]
        if not versions and site.folder("folds", name).exists():
            versions.append(fold_id(name))
        if not versions:
            raise BadInput(f"no job {name!r} was ever submitted in {site.name}", hint="is the name right?")
        channels = site.channels(versions[-1])
        known = ", ".join(sorted(channels))
        wanted = self.values.get("channel")
        if wanted is None:
            ordinary = [channel for channel in channels if channel not in (LATE, DEAD)]
            if len(ordinary) != 1:
                raise BadInput(
                    f"{name} has emitted {known or 'nothing yet'}", hint='say which: .option("channel", "on_window")'
                )
            wanted = ordinary[0]
        elif wanted not in channels:
            raise BadInput(f"{name} has no output {wanted!r}", hint=f"it has {known or 'none yet'}")
        return versions[-1], wanted, channels[wanted]

    def schema(self) -> StructType:
        """The stream's columns, and perhaps where each row is."""
        place = self.place()
        stream, columns = place.stream, _columns(place)
        if not columns:
            raise BadInput(
                f"stream {stream!r} has no rows yet, so its columns are not known",
                hint='say them: .schema("ts long, ...")',
            )
        if not self.flag("positions", False):
            return StructType(list(columns.values()))
        taken = sorted({OFFSET, PARTITION} & set(columns))
        if taken:
            raise BadInput(f"{stream!r} has a column {taken[0]!r} of its own", hint="leave out the option positions")
        return StructType([*_POSITIONS, *columns.values()])

    def reading(self, schema: StructType) -> Reading:
        place = self.place()
        starting = self.values.get("starting", "earliest")
        offsets: dict[int, int] | None = None
        at: int | None = None
        if starting.lstrip().startswith("{"):
            offsets = _offsets(starting, place.partitions)
        elif starting not in ("earliest", "latest"):
            try:
                at = instant(datetime.datetime.fromisoformat(starting))
            except ValueError:
                raise BadInput(f"starting is {starting!r}", hint=_KNOWN["starting"]) from None
        return Reading(
            site=place.site,
            stream=place.stream,
            output=place.output,
            partitions=place.partitions,
            schema=schema,
            positions=self.flag("positions", False),
            latest=starting == "latest",
            starting=offsets,
            starting_ts=at,
            time=self.values.get("time", "ts"),
            rows_per_trigger=self.number("maxRowsPerTrigger", None, 1),
            rows_per_task=self.number("rowsPerTask", 2_500_000, 1) or 0,
        )

    def writing(self, schema: StructType) -> Writing:
        if "job" in self.values:
            raise BadInput("what a job puts out cannot be written", hint='write to a stream: .option("stream", "bids")')
        stream = self.values["stream"]
        existing = self.site.streams().get(stream)
        wanted = self.number("partitions", existing or 1, 1) or 1
        column = self.values.get("partitionColumn")
        time = self.values.get("time", "ts") if self.flag("sorted", True) else None
        names = schema.fieldNames()
        if column is not None and (column not in names or not isinstance(schema[column].dataType, _INTEGERS)):
            raise BadInput(
                f"no integer column {column!r} to choose partitions by", hint=f"there are {', '.join(names)}"
            )
        if time is not None and time not in names:
            raise BadInput(
                f"no column {time!r} to sort by",
                hint=f'.option("time", one of {", ".join(names)}), or .option("sorted", "false")',
            )
        if existing is not None:
            Batches(self.site, stream, wanted)  # says so if it has others
            known = _columns(SiteStream(self.site, stream, None, existing))
            for name in set(names) & set(known):
                ours, theirs = known[name].dataType, schema[name].dataType
                if ours.simpleString() != theirs.simpleString():
                    raise BadInput(
                        f"column {name!r} of {stream!r} is {ours.simpleString()}, not {theirs.simpleString()}",
                        hint="columns may be added and left out, but keep their types: cast it, or write to another stream",
                    )
        return Writing(self.site, stream, wanted, column, time)


_POSITIONS = (StructField(PARTITION, IntegerType(), False), StructField(OFFSET, LongType(), False))
_INTEGERS = (IntegerType, LongType)


def _offsets(text: str, partitions: int) -> dict[int, int]:
    try:
        found = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        raise BadInput(f"starting is {text!r}", hint=_KNOWN["starting"]) from None
    wrong = sorted(set(found) - set(range(partitions)))
    if wrong:
        raise BadInput(f"there is no partition {wrong[0]}", hint=f"there are partitions 0 to {partitions - 1}")
    return found


def _columns(place: SiteStream) -> dict[str, StructField]:
    """The columns of the first rows of each partition, and what the last ones have beyond them."""
    found: dict[str, StructField] = {}
    with place.open() as log:
        for rows in [*_first_rows(log), *_last_rows(log)]:
            for field in from_arrow_schema(plain_schema(rows.schema)).fields:
                found.setdefault(field.name, StructField(field.name, field.dataType, True))
    return found


def _first_rows(log: ReadableLog) -> Iterator[pa.RecordBatch]:
    for partition in range(log.partitions):
        at, end, rows = log.start(partition), log.end(partition), None
        while at < end and rows is None:
            chunks = log.read(partition, at, _LOOK_ROWS)
            rows = next((chunk.rows for chunk in chunks if chunk.rows is not None), None)
            at = chunks[-1].end
        if rows is not None:
            yield rows


def _last_rows(log: ReadableLog) -> Iterator[pa.RecordBatch]:
    for partition in range(log.partitions):
        at, rows = log.end(partition), None
        while at > log.start(partition) and rows is None:  # behind marks
            at -= 1
            rows = next((chunk.rows for chunk in log.read(partition, at, 1) if chunk.rows is not None), None)
        if rows is not None:
            yield rows


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The types that Spark knows: dictionaries are spelled out."""
    return pa.schema(
        [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema]
    )
