"""Pipelines, as people write them: `h.source("bids", time="date_time").window(h.Tumbling("1s")).agg(n=h.count())`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeAlias, TypeVar, cast

import polars as pl
import pyarrow as pa

from holons.errors import BadProgram, BadWindow
from holons.names import check_name
from holons.program.dataflow import plan
from holons.program.dataflow.diagrams import Diagram, diagram
from holons.program.dataflow.measure import Measure
from holons.program.dataflow.measures import count
from holons.program.dataflow.pipeline import Pipeline
from holons.program.dataflow.plan import PlanNode, Sink, Source
from holons.program.dataflow.steps import Columns, Explode, Filter, Function, Items, Lookup, MapBatches, Step
from holons.program.dataflow.text import explain, one_line
from holons.program.job import Input, Job
from holons.program.lines import line_of_user
from holons.program.outputs import RESERVED
from holons.program.tables import Table, table
from holons.windows import Duration, Tumbling, WindowSpec, micros

Schema: TypeAlias = "Mapping[str, Any] | pl.Schema | pa.Schema | pl.DataFrame | pa.Table"
On: TypeAlias = "str | Sequence[str] | Mapping[str, str]"
R = TypeVar("R", bound="Dataset")
_CHARS_SHOWN: Final = 80
"""Of a step, when rows are shown by name: a plan may be of any length."""


def source(
    stream: str,
    *,
    time: str = "ts",
    disorder: Duration = "0s",
    max_future: Duration | None = "auto",
    schema: Schema | None = None,
    whole: bool = False,
) -> Stream:
    """Begins a pipeline with the rows of a stream: its time column, how far rows may be out of order, and its columns.

    Rows that are dated more than `max_future` after they were appended are dead; "auto" is an hour for live rows, and no
    limit for history, which is loaded; None is no limit.

    With a schema (names and polars types; or an Arrow schema, or any table with these columns) a pipeline is checked when
    it is built, and times keep their types. Without one it is checked when rows come.

    A job begins where its streams begin, which is later than 0 where a stream is not kept for ever; that is a warning,
    `InputTrimmed`. With `whole` the job is refused then.
    """
    check_name("stream", stream, line=line_of_user())
    return Stream(Source(stream, time, disorder, max_future, _schema(schema), whole))


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """What streams and results have in common: rows, and what can be done to each."""

    node: PlanNode

    @property
    def schema(self) -> pl.Schema | None:
        """The columns and their types, if they are known."""
        return self.node.schema

    def filter(self: R, *conditions: pl.Expr) -> R:
        """Keeps the rows for which all conditions hold; null counts as false."""
        return self._then(Filter(conditions))

    def select(self: R, *columns: str | pl.Expr, **named: pl.Expr) -> R:
        """Replaces the columns by others, computed row by row."""
        return self._then(Columns(_expressions(columns, named), more=False))

    def with_columns(self: R, *columns: pl.Expr, **named: pl.Expr) -> R:
        """Adds columns, computed row by row."""
        return self._then(Columns(_expressions(columns, named), more=True))

    def map_batches(self: R, function: Function) -> R:
        """Applies a function to batches: it gets a polars frame and returns one with as many rows.

        It must not look from row to row: where a batch ends may differ from run to run.
        """
        return self._then(MapBatches(function))

    def explode(self: R, *column: str, **item: Items) -> R:
        """Makes a row of each item of a list: `explode("words")`, or `explode(word=pl.col("text").str.split(" "))`.

        What is passed by name may also be a function that gives lists. As in Spark, an empty list or null gives no row.
        """
        lists = {**{name: name for name in column}, **item}
        if len(lists) != 1:
            raise BadProgram(
                f"{line_of_user()}: explode names one column", hint='explode("words"), or explode(word=...)'
            )
        ((name, items),) = lists.items()
        return self._then(Explode(name, items))

    def lookup(self: R, rows: Any, on: str | pl.Expr, *, key: str = "", how: Literal["inner", "left"] = "inner") -> R:  # noqa: ANN401
        """Adds the columns of a small table by key: `h.table(...)`, or what that takes.

        `key` is the table's own column; without it, the one with the name of `on`.
        """
        own = key or (on if isinstance(on, str) else on.meta.output_name())
        side = rows if isinstance(rows, Table) else table(rows, key=own)
        return self._then(Lookup(side, pl.col(on) if isinstance(on, str) else on, how))

    def to(self, channel: str) -> Flow:
        """Emits the rows to a channel. This makes a job; `h.job(first, second)` makes one job of several."""
        if check_name("channel", channel, line=line_of_user()) in RESERVED:
            raise BadProgram(
                f"{line_of_user()}: channel {channel!r} belongs to the runtime", hint="choose another name"
            )
        return flow((Sink(self.node, channel),))

    def _then(self: R, step: Step) -> R:
        return type(self)(plan.Stepped(self.node, step))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_shown(self.node)})"


class Stream(Dataset):
    """The rows of one or more streams, each with its time."""

    def union(self, *others: Stream) -> Stream:
        """Adds the rows of other streams with the same columns."""
        return Stream(plan.Union((self.node, *(other.node for other in others))))

    def window(self, spec: WindowSpec, *, accumulate: bool = False) -> Windowed:
        """Assigns the rows to windows by their times, `h.Tumbling`, `h.Sliding` or `h.Session`, or counts `h.CountWindow`.

        With `accumulate` the value of a window is that of all rows up to its end.
        """
        return Windowed(self.node, _spec(spec), accumulate)

    def join(
        self,
        other: Stream,
        on: On,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        every: Duration | None = None,
        how: Literal["inner"] = "inner",
    ) -> Completed:
        """Pairs rows whose times are close: the other's at most `before` earlier and `after` later than ours.

        One of the two is enough, the other is then 0. Our rows stay where they are; the other's are replicated to all
        nodes, so let it be the smaller one. Pairs come out with windows of `every`: a second, or for bounds of many
        minutes about a sixtieth of them.
        """
        line = line_of_user()
        if not isinstance(other, Stream):
            raise BadProgram(f"{line}: a stream is joined with a stream", hint="for tables there is lookup(...)")
        if before is None and after is None:
            raise BadProgram(
                f"{line}: a join without bounds would keep every row for ever",
                hint='say how long: join(..., before="1h", after="1m"); or join windows: a.window(w).join(b.window(w), ...)',
            )
        bounds = plan.Bounds(micros(before or "0s", zero_allowed=True), micros(after or "0s", zero_allowed=True))
        return Completed(plan.Join(self.node, other.node, _on(on), how, Tumbling(every or _step(bounds)), bounds))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
            named = hasattr(Windowed, name) or hasattr(Completed, name)
            windows = '; give them windows first: .window(h.Tumbling("1s"))' if named else ""
            raise AttributeError(f"rows of a stream have no {name!r}{windows}")


@dataclass(frozen=True, eq=False, repr=False)
class Windowed:
    """Rows in windows, to be aggregated."""

    node: PlanNode
    spec: WindowSpec
    accumulate: bool = False

    def agg(self, *unnamed: Never, **measures: Measure) -> Completed:
        """Aggregates all partitions, one row for each window: `agg(n=h.count(), best=h.max("price"))`."""
        return self._aggregate((), unnamed, measures)

    def per_partition(self, *unnamed: Never, **measures: Measure) -> Completed:
        """Aggregates each partition's rows alone, one row for each window and partition."""
        return self._aggregate((), unnamed, measures, local=True)

    def group_by(self, *keys: str) -> Grouped:
        """Groups the rows by keys: integers, strings, booleans or times. Every node has all keys; nothing is shuffled."""
        if not keys:
            raise BadProgram(f"{line_of_user()}: group_by names no column", hint='group_by("auction")')
        for key in keys:
            if not isinstance(key, str):
                raise BadProgram(
                    f"{line_of_user()}: group_by takes names of columns, not {key}",
                    hint='compute it first: with_columns(hour=...), then window(...).group_by("hour")',
                )
        return Grouped(self, keys)

    def unique(self, subset: str | Sequence[str]) -> Completed:
        """Keeps each combination of values once in each window, and these columns alone; without rows that have a null."""
        columns = _names(subset)
        if not columns:
            raise BadProgram(f"{line_of_user()}: unique names no column", hint='unique("bidder")')
        counted = self.group_by(*columns).agg(**{"rows!": count()})
        return counted.select(*plan.window_columns(self.spec), *columns)

    def join(self, other: Windowed, on: On, *, how: Literal["inner", "left", "semi", "anti"] = "inner") -> Completed:
        """Pairs rows in the same window. Our rows stay where they are; the other's are replicated to all nodes."""
        windows_of_time = self.spec.known_ahead and not self.spec.counted
        if not isinstance(other, Windowed) or other.spec != self.spec or not windows_of_time:
            raise BadProgram(
                f"{line_of_user()}: windows are joined with the same windows, tumbling or sliding",
                hint="a.window(w).join(b.window(w), on=...)",
            )
        if self.accumulate or other.accumulate:
            raise BadProgram(
                f"{line_of_user()}: a join would keep every row for ever", hint="join windows that do not accumulate"
            )
        return Completed(plan.Join(self.node, other.node, _on(on), how, self.spec.aligned, None))

    def _aggregate(
        self, keys: tuple[str, ...], unnamed: tuple[object, ...], measures: dict[str, Measure], *, local: bool = False
    ) -> Completed:
        line = line_of_user()
        if unnamed:
            raise BadProgram(f"{line}: a measure has no name, which its column needs", hint="name it: agg(n=h.count())")
        if not measures:
            raise BadProgram(f"{line}: agg names no measure", hint="agg(n=h.count())")
        for name, measure in measures.items():
            if not isinstance(measure, Measure):
                raise BadProgram(
                    f"{line}: {name} is a {type(measure).__name__}, not a measure",
                    hint='e.g. h.count(), h.max("price"), h.using(MyAggregate(), "price")',
                )
        return Completed(plan.Aggregation(self.node, self.spec, keys, tuple(measures.items()), self.accumulate, local))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
            raise AttributeError(f"rows in windows have no {name!r}: aggregate them, .agg(n=h.count(), ...)")

    def __repr__(self) -> str:
        return f"Windowed({_shown(self.node)}, {self.spec}{' accumulating' if self.accumulate else ''})"


@dataclass(frozen=True, eq=False, repr=False)
class Grouped:
    """Rows in windows, by key."""

    windowed: Windowed
    keys: tuple[str, ...]

    def agg(self, *unnamed: Never, **measures: Measure) -> Completed:
        """Aggregates the rows of each key, one row for each window and key."""
        return self.windowed._aggregate(self.keys, unnamed, measures)

    def __repr__(self) -> str:
        return f"Grouped({self.windowed}, by {', '.join(self.keys)})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
            raise AttributeError(f"rows by key have no {name!r}: say .agg(n=h.count(), ...)")


class Completed(Dataset):
    """The rows of completed windows: the same on every node, in one order."""

    def top_k(self, k: int, by: str | Sequence[str], *, ties: bool = False) -> Completed:
        """Keeps the k rows of each window with the largest values; with `ties`, also those that equal the last of them."""
        return Completed(plan.Gathered(self.node, "top_k", _names(by), k, ties))

    def sort(self, by: str | Sequence[str], *, descending: bool = False) -> Completed:
        """Sorts the rows of each window."""
        return Completed(plan.Gathered(self.node, "sort", _names(by), descending=descending))

    def unique(self, subset: str | Sequence[str]) -> Completed:
        """Keeps the first of the rows of each window that agree in these columns."""
        return Completed(plan.Gathered(self.node, "unique", _names(subset)))

    def zip(self, other: Completed) -> Completed:
        """Puts both results of each window into one row, where both have one."""
        return Completed(plan.Pair(self.node, other.node, (), "inner"))

    def join(self, other: Completed, on: str | Sequence[str], *, how: Literal["inner", "left"] = "inner") -> Completed:
        """Pairs rows of the same window that agree in some columns."""
        return Completed(plan.Pair(self.node, other.node, _names(on), how))

    def at(self, time: str) -> Completed:
        """Counts each row at the time in a column, in the windows that follow: `at("expires")`. Never before its window."""
        return Completed(plan.At(self.node, time))

    def window(self, spec: WindowSpec, *, accumulate: bool = False) -> Windowed:
        """Assigns results to windows again: one global aggregation feeds the next."""
        return Windowed(self.node, _spec(spec), accumulate)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returns
            hint = "; give them windows again: .window(...)" if hasattr(Windowed, name) else ""
            raise AttributeError(f"results of windows have no {name!r}{hint}")


@dataclass(frozen=True, repr=False)
class Flow(Job):
    """A pipeline as a job: run it with `h.run(...)` like any other."""

    def __repr__(self) -> str:
        streams = ", ".join(source.stream for source in self.inputs)
        return f"Flow {self.name!r} from {streams} to {', '.join(self.layout.channels)}"

    def explain(self) -> str:
        """Returns the pipeline as a tree, and the state of the program that it is lowered to."""
        return explain(self)

    def diagram(self) -> Diagram:
        """The pipeline as a flowchart: its `str` is Mermaid text, which notebooks, GitHub and documentation tools draw."""
        return diagram(cast(Pipeline, self.program).sinks)

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> Mapping[str, str]:
        """What notebooks show."""
        return self.diagram()._repr_mimebundle_(include, exclude)

    def describe(self) -> dict[str, Any]:
        """Returns sources, handles, stages and channels as plain data."""
        handles = [
            {
                "name": handle.name,
                "stage": 0 if handle.window.counted else handle.stage,
                "window": str(handle.window),
                "state": handle.aggregate.describe(),
            }
            for handle in self.layout.handles
        ]
        sources = [{"stream": it.stream, "time": it.time, "disorder": it.disorder} for it in self.inputs]
        return {"name": self.name, "sources": sources, "handles": handles, "channels": list(self.layout.channels)}

    def discarding(self, columns: Sequence[str] | None = None) -> Flow:
        """Returns the same pipeline, whose rows (or these columns of them) are made and go nowhere: for measuring."""
        program = self.program
        assert isinstance(program, Pipeline)
        nodes = [sink.node for sink in program.sinks]
        if columns is not None:
            nodes = [plan.Stepped(node, Columns(_expressions(columns, {}), more=False)) for node in nodes]
        sinks = [Sink(node, sink.channel, discard=True) for node, sink in zip(nodes, program.sinks, strict=True)]
        return flow(sinks, self.name)

    def together(self, others: Sequence[Job], name: str) -> Job:
        program = self.program
        assert isinstance(program, Pipeline)
        sinks = list(program.sinks)
        for other in others:
            if not isinstance(other.program, Pipeline):
                raise BadProgram("a pipeline and a program in one job", hint="run them as two jobs")
            sinks += other.program.sinks
        return flow(sinks, name or self.name)


def flow(sinks: Sequence[Sink], name: str = "") -> Flow:
    """Makes one job of all sinks."""
    sources: dict[str, Source] = {}
    wanted = [node for node in plan.nodes(*(sink.node for sink in sinks)) if isinstance(node, Source)]
    whole = {node.stream for node in wanted if node.whole}
    for node in wanted:
        if (known := sources.setdefault(node.stream, node)).clock != node.clock:
            raise BadProgram(
                f"{node.line}: stream {node.stream!r} has another time column, disorder or max_future "
                f"than in {known.line}",
                hint="call h.source once, and use its result twice",
            )
    channels: dict[str, Sink] = {}
    for sink in sinks:
        first = channels.setdefault(sink.channel, sink)
        if first is not sink:
            raise BadProgram(
                f"{sink.line}: channel {sink.channel!r} is written twice, first in {first.line}",
                hint="use another name, or union the rows first",
            )
    program = Pipeline(sinks)
    inputs = tuple(
        Input(name, source.time, source.disorder, program.needs.streams[name], source.max_future, name in whole)
        for name, source in sources.items()
    )
    return Flow(program, inputs, name or sinks[0].channel)


def _shown(node: PlanNode) -> str:
    text = one_line(node)
    return text if len(text) <= _CHARS_SHOWN else f"{text[: _CHARS_SHOWN - 1]}…"


def _step(bounds: plan.Bounds) -> str:
    """A round time, a sixtieth of the bounds at most: to look more often costs more than it brings.

    >>> [_step(plan.Bounds(seconds * 1_000_000, 0)) for seconds in (0, 59, 600, 3_600, 86_400)]
    ['1s', '1s', '10s', '1m', '10m']
    """
    sixtieth_us = (bounds.before_us + bounds.after_us) // 60
    return next((step for step in ("1h", "10m", "1m", "10s") if micros(step) <= sixtieth_us), "1s")


def _schema(schema: Schema | None) -> pl.Schema | None:
    if schema is None or isinstance(schema, pl.Schema):
        return schema
    if isinstance(schema, pl.DataFrame):
        return schema.schema
    if isinstance(schema, pa.Table | pa.RecordBatch):
        schema = schema.schema
    if isinstance(schema, pa.Schema):
        return pl.DataFrame(schema.empty_table()).schema
    if isinstance(schema, Mapping):
        return pl.Schema(schema).to_frame().schema
    raise BadProgram(
        f"{line_of_user()}: a {type(schema).__name__} is no schema",
        hint='names and types, {"price": pl.Int64, ...}, an Arrow schema, or a table with these columns',
    )


def _spec(spec: WindowSpec) -> WindowSpec:
    if not isinstance(spec, WindowSpec):
        raise BadWindow(
            f"{line_of_user()}: {spec!r} is not a window",
            hint='h.Tumbling("1s"), h.Sliding("10s", every="1s"), h.Session("30s")',
        )
    return spec


def _expressions(columns: Sequence[str | pl.Expr], named: Mapping[str, Any]) -> tuple[pl.Expr, ...]:
    """As in polars: a string is the name of a column, also behind a keyword; other plain values are constants."""
    plain = [pl.col(column) if isinstance(column, str) else column for column in columns]
    others = {name: pl.col(value) if isinstance(value, str) else value for name, value in named.items()}
    return *plain, *(
        (value if isinstance(value, pl.Expr) else pl.lit(value)).alias(name) for name, value in others.items()
    )


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _on(on: On) -> tuple[tuple[str, str], ...]:
    if isinstance(on, Mapping):
        return tuple(on.items())
    return tuple((name, name) for name in _names(on))
