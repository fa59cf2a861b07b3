"""The rows that a job has emitted, over all its versions: each took over from the one before where that one left off.

`Outputs` says where the rows are, as of one moment. They are read from the logs only when somebody asks for them, and then
piece by piece, so that outputs may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from holons.arrow import python_rows
from holons.errors import LogDamaged, RowsTrimmed
from holons.node import Site, Submitted
from holons.program import Collected, Cut, Job, Output
from holons.streams import ReadableLog, in_memory

OpenLog: TypeAlias = Callable[[], ReadableLog]
"""Opens an output log to read it; whoever opened it closes it."""

_READ_ROWS: Final = 65_536
"""How many rows are read from a log at a time."""


class Span(NamedTuple):
    """The rows of one partition that stand in one output log: those below the ordinal `end`, as far as they are kept."""

    open: OpenLog
    partition: int
    end: int
    start: int = 0
    """The first ordinal that was kept when somebody looked."""

    def read(self, first: int, columns: Collection[str] | None) -> Iterator[tuple[pa.RecordBatch, pa.Schema]]:
        """The rows from an ordinal on, batch by batch, each with the schema that it has with all columns."""
        with closing(self.open()) as log:
            at = max(first, self.start)
            while at < self.end:
                chunks = log.read(self.partition, at, min(_READ_ROWS, self.end - at), columns)
                if not chunks and log.start(self.partition) <= at:
                    return
                if not chunks or chunks[0].offset > at:
                    raise RowsTrimmed(
                        f"rows from {at} on were there, and are not kept any more",
                        hint="read results sooner, ask for them again, or keep the outputs for longer: holons retain",
                        partition=self.partition,
                    )
                for chunk in chunks:
                    assert chunk.rows is not None, "output logs have no marks"
                    yield chunk.rows, chunk.rows.schema if chunk.whole is None else chunk.whole.schema
                at = chunks[-1].end


@dataclass(frozen=True)
class Outputs:
    """What a job had emitted at one moment: the spans of each channel and partition, oldest version first."""

    spans: Mapping[str, Mapping[int, tuple[Span, ...]]] = field(default_factory=dict)
    inputs: Callable[[], Mapping[str, pa.Schema]] = dict
    """The columns of the job's input streams, as far as they have rows: diverted rows have them too."""

    def partitions(self, channel: str) -> list[int]:
        """The partitions that have rows in a channel."""
        partitions = self.spans.get(channel, {}).items()
        return sorted(partition for partition, spans in partitions if any(span.start < span.end for span in spans))

    def count(self, channel: str, partition: int | None = None) -> int:
        """How many rows a channel has, or one of its partitions. No row is read for that."""
        partitions = self.spans.get(channel, {})
        chosen = partitions.values() if partition is None else [partitions.get(partition, ())]
        return sum(span.end - span.start for spans in chosen for span in spans)

    def start(self, channel: str, partition: int) -> int:
        """The first ordinal of a partition that is kept."""
        before = 0
        for span in self.spans.get(channel, {}).get(partition, ()):
            if span.start < span.end:
                return before + span.start
            before += span.end
        return before

    def last(self, channel: str, partition: int, rows: int) -> int:
        """The ordinal from which a partition has so many rows, or as many as there are."""
        return self.start(channel, partition) + max(0, self.count(channel, partition) - rows)

    def batches(
        self, channel: str, partition: int, first: int = 0, columns: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a partition from an ordinal on, as they were written; with `columns`, those of them that they have."""
        return (rows for rows, _ in self._read(channel, partition, first, columns))

    def schemas(self, channel: str) -> Iterator[pa.Schema]:
        """The schemas with which the rows of a channel were written, each that differs from the one before it."""
        last: pa.Schema | None = None
        for partition in self.partitions(channel):
            if last is None:
                _, last = next(self._read(channel, partition, 0, None))
                yield last
            for _, schema in self._read(channel, partition, 0, last.names[:1]):  # the other columns are not read
                if not schema.equals(last, check_metadata=True):
                    yield schema
                last = schema

    def _read(
        self, channel: str, partition: int, first: int, columns: Collection[str] | None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Schema]]:
        before = 0
        for span in self.spans.get(channel, {}).get(partition, ()):
            if first < before + span.end:
                yield from span.read(max(first - before, 0), columns)
            before += span.end

    def collected(self) -> Collected:
        """All rows as dicts, by channel and partition."""
        return {
            channel: {
                partition: [row for batch in self.batches(channel, partition) for row in python_rows(batch)]
                for partition in self.partitions(channel)
            }
            for channel in sorted(self.spans)
        }

    def in_memory(self) -> Outputs:
        """The same rows, read from their logs now: for logs that are about to go."""
        held = outputs_in_memory(
            Output(channel, partition, 0, pa.Table.from_batches([batch]))
            for channel in self.spans
            for partition in self.partitions(channel)
            for batch in self.batches(channel, partition)
        )
        inputs = self.inputs()
        return replace(held, inputs=lambda: inputs)


def fold_id(name: str) -> str:
    """Returns the id under which the outputs of a fold are kept, as those of a job's version are under its id."""
    return f"fold-{name}"


def output_logs(site: Site, job: str) -> dict[str, OpenLog]:
    """Returns how to open the outputs of one version of a job, by channel."""
    return {
        channel: partial(site.output, job, channel, partitions, "reader")
        for channel, partitions in site.channels(job).items()
    }


def emitted(site: Site, name: str) -> Outputs:
    """Returns where the rows stand that count. `name` is that of a job or of a fold, or the id of one version of a job."""
    if history := site.jobs().history(name):
        return outputs_of(history, partial(output_logs, site), site.appends)
    return outputs_in_logs(output_logs(site, fold_id(name)) or output_logs(site, name))


def folded(site: Site, name: str) -> Outputs:
    """Returns where the rows of a fold stand; a job of the same name has others."""
    return outputs_in_logs(output_logs(site, fold_id(name)))


def emitted_by(site: Site, job: Job, version: str) -> Outputs:
    """Returns where the rows of a run stand, and what is known of its inputs.

    The versions before the one that runs count; one that has taken over from it does not.
    """
    streams = [source.stream for source in job.inputs]
    history = site.jobs().history(version)
    outputs = outputs_of(history, partial(output_logs, site), site.appends) if history else emitted(site, version)
    return replace(outputs, inputs=partial(input_schemas, site, streams))


def check_kept(site: Site, history: Sequence[Submitted]) -> None:
    """Raises `LogDamaged` unless all rows are there that older versions have emitted and newer ones rely on."""
    for older, newer in pairwise(history):
        logs = output_logs(site, older.id)
        for partition, cut in enumerate(newer.cuts):
            for channel, rows in cut.ordinals.items():
                kept = _end(logs[channel], partition) if channel in logs else 0
                if kept < rows:
                    raise LogDamaged(
                        f"partition {partition} of the output {older.id}/{channel} has {kept} of {rows} rows",
                        hint=f"{newer.id} goes on where they end: restore the output from a copy",
                    )


def _end(open_log: OpenLog, partition: int) -> int:
    with closing(open_log()) as log:
        return log.end(partition)


def input_schemas(site: Site, streams: Iterable[str]) -> dict[str, pa.Schema]:
    """Returns the columns of input streams, as the first rows of each have them."""
    schemas = ((stream, _first_schema(site.input(stream, "reader"))) for stream in streams)
    return {stream: schema for stream, schema in schemas if schema is not None}


def _first_schema(stream: ReadableLog) -> pa.Schema | None:
    with closing(stream) as log:
        for partition in range(log.partitions):
            at = log.start(partition)
            while chunks := log.read(partition, at, 1):
                for chunk in chunks:
                    if chunk.rows is not None:
                        return chunk.rows.schema if chunk.whole is None else chunk.whole.schema
                at = chunks[-1].end
    return None


def outputs_of(
    history: Sequence[Submitted], logs: Callable[[str], Mapping[str, OpenLog]], appends: Callable[[str], bool]
) -> Outputs:
    """Where the rows of a job stand; `logs` gives the output logs of one of its versions, by channel.

    A version's rows end where the next one took over. In outputs that were appended to, positions do not tell where that
    is: all of their rows stand, and those behind it come again.
    """
    spans: dict[str, dict[int, tuple[Span, ...]]] = {}
    cuts = [newer.cuts for _, newer in pairwise(history)]
    for version, ends in zip(history, [*cuts, None], strict=False):
        _add_spans(spans, logs(version.id), None if appends(version.id) else ends)
    return Outputs(spans)


def outputs_in_logs(logs: Mapping[str, OpenLog]) -> Outputs:
    """All rows of some logs, by channel."""
    spans: dict[str, dict[int, tuple[Span, ...]]] = {}
    _add_spans(spans, logs)
    return Outputs(spans)


def outputs_in_memory(outputs: Iterable[Output]) -> Outputs:
    """Rows that are held in memory."""
    batches: dict[str, list[tuple[int, pa.RecordBatch]]] = {}
    partitions = 1
    for output in outputs:
        partitions = max(partitions, 1 + output.partition)
        pairs = ((output.partition, batch) for batch in output.table.to_batches())
        batches.setdefault(output.channel, []).extend(pairs)
    logs = {channel: in_memory(partitions, pairs) for channel, pairs in batches.items()}
    return outputs_in_logs({channel: partial(_itself, log) for channel, log in logs.items()})


def _itself(log: ReadableLog) -> ReadableLog:
    """Returns a log in memory as it is: it need not be opened."""
    return log


def _add_spans(
    spans: dict[str, dict[int, tuple[Span, ...]]], logs: Mapping[str, OpenLog], cuts: Sequence[Cut] | None = None
) -> None:
    """Adds the rows of some logs, up to where a newer version took over."""
    for channel in sorted(logs):
        with closing(logs[channel]()) as log:
            for partition in range(log.partitions):
                end = log.end(partition)
                if cuts is not None:
                    end = min(end, cuts[partition].ordinals.get(channel, 0)) if partition < len(cuts) else 0
                if end:
                    partitions = spans.setdefault(channel, {})
                    span = Span(logs[channel], partition, end, min(log.start(partition), end))
                    partitions[partition] = (*partitions.get(partition, ()), span)
