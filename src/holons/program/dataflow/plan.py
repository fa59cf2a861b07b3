"""A pipeline as a plan: what comes from where, with its columns, its windows, and who works it out.

Rows of a stream are handled by each partition for itself, in `process`. What follows a window is worked out when the
window is completed, in `on_window`, and then its **place** says by whom:

- `local`: each partition has rows of its own (a per-partition aggregate, a join);
- `spread`: every partition could read all of it, and takes its share of the keys;
- `gathered`: one partition speaks for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

import polars as pl

from holons.errors import BadProgram
from holons.program.dataflow.columns import packed
from holons.program.dataflow.expressions import across_rows
from holons.program.dataflow.lines import line_of_user, written_at
from holons.program.dataflow.measure import Measure
from holons.program.dataflow.steps import Step
from holons.windows import AlignedSpec, Duration, WindowSpec, micros
from holons.windows.duration import duration_text

Place: TypeAlias = Literal["rows", "local", "spread", "gathered"]

START: Final = "window_start"
END: Final = "window_end"
INSTANT: Final = pl.Datetime("us", "UTC")
WINDOW_COLUMNS: Final = {START: INSTANT, END: INSTANT}


@dataclass(frozen=True)
class Kind:
    """Windows that are completed together: of one stage and one specification; sessions are each by themselves."""

    stage: int
    window: WindowSpec
    apart: Node | None = None


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """A step of a plan. Knows where it was written."""

    line: ClassVar[str] = ""
    """Where it was written. No field: it does not count for what a job does."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", line_of_user())
        with written_at(self.line, self, building=True):
            self.check()
            _ = self.schema

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]: ...

    @cached_property
    @abstractmethod
    def schema(self) -> pl.Schema | None:
        """The columns, if they are known."""

    @cached_property
    def kind(self) -> Kind | None:
        """Which windows it belongs to; None for rows of a stream."""
        return self.inputs[0].kind

    @cached_property
    def place(self) -> Place:
        return self.inputs[0].place

    @cached_property
    def grain(self) -> AlignedSpec | None:
        """Windows within which times of results are not told apart; None: each result has its window's."""
        return self.inputs[0].grain if self.inputs else None

    @cached_property
    def next_stage(self) -> int:
        """The stage of windows over this."""
        return 0 if self.kind is None else self.kind.stage + 1

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Raises unless it can be done."""

    @abstractmethod
    def __str__(self) -> str: ...


def nodes(*ends: Node) -> Iterator[Node]:
    """All nodes that some need, each once, inputs first."""
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) not in seen:
            seen.add(id(node))
            for one in node.inputs:
                yield from visit(one)
            yield node

    for end in ends:
        yield from visit(end)


@dataclass(frozen=True, eq=False)
class Source(Node):
    """The rows of a stream."""

    stream: str
    time: str
    disorder: Duration
    columns: pl.Schema | None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.columns

    @cached_property
    def kind(self) -> Kind | None:
        return None

    @cached_property
    def place(self) -> Place:
        return "rows"

    def check(self) -> None:
        micros(self.disorder, zero_allowed=True)  # says what is wrong with it
        if self.columns is None:
            return
        if self.time not in self.columns:
            raise BadProgram(
                f"{self.line}: stream {self.stream!r} has no time column {self.time!r}",
                hint=f"name one of {', '.join(self.columns)}: h.source({self.stream!r}, time=...)",
            )
        _check_time(self.line, self.time, self.columns[self.time])

    def __str__(self) -> str:
        disorder_us = micros(self.disorder, zero_allowed=True)
        disorder = f", disorder {duration_text(disorder_us)}" if disorder_us else ""
        return f"source {self.stream} (time {self.time}{disorder})"


@dataclass(frozen=True, eq=False)
class Stepped(Node):
    """Rows after a step."""

    before: Node
    step: Step

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        return None if self.before.schema is None else self.step.schema(self.before.schema)

    def check(self) -> None:
        _by_row(self.before, self.step, self.line)

    def __str__(self) -> str:
        return str(self.step)


@dataclass(frozen=True, eq=False)
class Union(Node):
    """The rows of several streams."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.parts[0].schema

    def check(self) -> None:
        if any(part.kind is not None for part in self.parts):
            raise BadProgram(f"{self.line}: union takes streams", hint="union before the window, or use several sinks")
        known = [part.schema for part in self.parts if part.schema is not None]
        for other in known[1:]:
            if other != known[0]:
                raise BadProgram(
                    f"{self.line}: union of different columns: {_columns(known[0])}, and {_columns(other)}",
                    hint="select the same columns of both, in the same types and order",
                )

    def __str__(self) -> str:
        return f"union of {len(self.parts)}"


@dataclass(frozen=True, eq=False)
class Aggregate(Node):
    """Measures over windows: of everything, of each partition, or by key."""

    before: Node
    window: WindowSpec
    keys: tuple[str, ...]
    measures: tuple[tuple[str, Measure], ...]
    accumulate: bool = False
    local: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        before = self.before.schema
        measured = {name: measure.dtype(before) for name, measure in self.measures}
        if before is None or any(dtype is None for dtype in measured.values()):
            return None
        keys = {name: before[name] for name in self.keys}
        return pl.Schema({**WINDOW_COLUMNS, **keys, **measured})  # type: ignore[arg-type]

    @cached_property
    def grain(self) -> AlignedSpec | None:
        return None

    @cached_property
    def kind(self) -> Kind:
        return Kind(self.before.next_stage, self.window, None if self.window.known_ahead else self)

    @cached_property
    def place(self) -> Place:
        return "local" if self.local else "spread" if self.keys else "gathered"

    def check(self) -> None:
        taken = {*WINDOW_COLUMNS, *self.keys}
        twice = sorted(taken & {name for name, _ in self.measures})
        if twice:
            raise BadProgram(f"{self.line}: there would be two columns {twice[0]!r}", hint="choose another name")
        before = self.before.schema
        for key in self.keys:
            if before is not None and key not in before:
                raise BadProgram(f"{self.line}: no column {key!r} to group by", hint=f"there are {', '.join(before)}")
            if before is not None and (before[key].is_float() or before[key].is_nested()):
                raise BadProgram(
                    f"{self.line}: {before[key]} cannot be a key", hint="round it, or format it as a string"
                )
        if self.local and self.keys:
            raise BadProgram(f"{self.line}: per partition and by key at once", hint="choose one of them")
        if self.window.keyed and (self.accumulate or self.local or len(self.keys) > 1):
            raise BadProgram(
                f"{self.line}: sessions are over all partitions, by at most one key, and do not accumulate",
                hint="with_columns a single key, or use h.Tumbling",
            )
        if self.accumulate and not self.window.may_accumulate:
            raise BadProgram(f"{self.line}: only tumbling windows accumulate", hint="h.Tumbling(...), accumulate=True")
        grain = self.before.grain
        if grain is not None and not self.window.is_made_of(grain):
            raise BadProgram(
                f"{self.line}: {self.window} over results of {grain}, which do not fit into it",
                hint=f"their times are known in steps of {grain} only, and a gap needs exact ones: h.Tumbling or h.Sliding"
                if self.window.keyed
                else "let it be whole multiples, or join(..., every=...) with a divisor of it",
            )
        for _, measure in self.measures:
            _by_row(self.before, measure, self.line)
            measure.check(before)

    def __str__(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else " per partition" if self.local else ""
        measures = ", ".join(f"{name} = {measure}" for name, measure in self.measures)
        return f"{self.window}{' accumulating' if self.accumulate else ''}{by}: {measures}"


@dataclass(frozen=True, eq=False)
class Bounds:
    """How far apart two rows may be that belong together: the right one `before` to `after` the left one."""

    before_us: int
    after_us: int

    def __str__(self) -> str:
        reach = {"before": self.before_us, "after": self.after_us}
        parts = [f"{duration_text(micros)} {word}" for word, micros in reach.items() if micros]
        return f"at most {' or '.join(parts)}" if parts else "at the same time"


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Pairs of rows of two streams: left rows stay with their partition, right ones are replicated."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]
    how: Literal["inner", "left", "semi", "anti"]
    window: AlignedSpec
    bounds: Bounds | None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    @cached_property
    def schema(self) -> pl.Schema | None:
        left, right = self.left.schema, self.right.schema
        assert left is not None
        assert right is not None
        windows = {} if self.bounds is not None else WINDOW_COLUMNS
        return pl.Schema({**windows, **left, **windows, **{name: right[name] for name in self.added}})

    @property
    def added(self) -> list[str]:
        """The right columns that a pair has."""
        assert self.right.schema is not None
        keys = {right for _, right in self.on} | (set(WINDOW_COLUMNS) if self.bounds is None else set())
        return [] if self.how in ("semi", "anti") else [name for name in self.right.schema if name not in keys]

    @cached_property
    def grain(self) -> AlignedSpec | None:
        return self.window

    @cached_property
    def kind(self) -> Kind:
        return Kind(self.left.next_stage, self.window)

    @cached_property
    def place(self) -> Place:
        return "local"

    def check(self) -> None:
        left, right = self.left.schema, self.right.schema
        if left is None or right is None:
            raise BadProgram(
                f"{self.line}: a join keeps rows, so it must know their columns",
                hint="say what they are: h.source(..., schema=...)",
            )
        if self.left.next_stage != self.right.next_stage:
            raise BadProgram(
                f"{self.line}: a join of a stream and of completed windows",
                hint="join two streams, or two results of the same number of windows",
            )
        if self.how not in ("inner", "left", "semi", "anti"):
            raise BadProgram(f"{self.line}: a join has no how={self.how!r}", hint="inner, left, semi or anti")
        if not self.on:
            raise BadProgram(f"{self.line}: a join on no column", hint='name those that are equal: on="auction"')
        for mine, theirs in self.on:
            for name, schema, side in ((mine, left, "left"), (theirs, right, "right")):
                if name not in schema:
                    raise BadProgram(f"{self.line}: the {side} side has no column {name!r}", hint=_columns(schema))
            if left[mine] != right[theirs]:
                raise BadProgram(
                    f"{self.line}: {mine} is {left[mine]}, and {theirs} is {right[theirs]}",
                    hint="cast one of them to the other's type",
                )
        twice = sorted(set(left) & set(self.added))
        if twice:
            raise BadProgram(
                f"{self.line}: both sides have {', '.join(twice)}",
                hint="select or rename the columns of one side first",
            )
        if self.bounds is not None and self.how != "inner":
            raise BadProgram(f"{self.line}: a join within a time has no how={self.how!r}", hint="join windows for that")
        for schema in (left, right):
            packed(schema.to_frame(), tuple(schema))  # says which column cannot be kept

    def __str__(self) -> str:
        on = " and ".join(f"{left} = {right}" for left, right in self.on)
        return f"{self.how} join on {on}, {self.window}{'' if self.bounds is None else f', {self.bounds}'}"


@dataclass(frozen=True, eq=False)
class Pair(Node):
    """Results of the same windows side by side: of one row each, or by columns that they share."""

    left: Node
    right: Node
    on: tuple[str, ...]
    how: Literal["inner", "left"]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    @cached_property
    def schema(self) -> pl.Schema | None:
        if self.left.schema is None or self.right.schema is None:
            return None
        shared = (*WINDOW_COLUMNS, *self.on)
        return pl.Schema({**self.left.schema, **{n: t for n, t in self.right.schema.items() if n not in shared}})

    @cached_property
    def kind(self) -> Kind | None:
        left, right = self.left.kind, self.right.kind
        assert left is not None
        assert right is not None
        return left if left.stage >= right.stage else right

    def check(self) -> None:
        left, right = self.left.kind, self.right.kind
        if left is None or right is None or left.window != right.window or not left.window.known_ahead:
            raise BadProgram(
                f"{self.line}: these do not have the same windows",
                hint="both sides need windows of the same size and step; rows of streams are joined by `join`",
            )
        if self.right.place == "local" and self.left.place != "local":
            raise BadProgram(f"{self.line}: each partition has a right side of its own", hint="swap the sides")
        if self.how not in ("inner", "left"):
            raise BadProgram(
                f"{self.line}: a join of windows has no how={self.how!r}", hint='how="inner" or how="left"'
            )
        if self.how == "left" and left.stage < right.stage:
            raise BadProgram(
                f"{self.line}: the right side comes from a later stage, and says nothing of windows that it does not have",
                hint='how="inner"; or join a left side of the same number of windows',
            )
        if self.how == "left" and self.right.schema is None:
            raise BadProgram(
                f"{self.line}: a left join must know the columns of its right side",
                hint="say what they are: h.source(..., schema=...)",
            )
        if self.left.schema is None or self.right.schema is None:
            return
        for side in (self.left.schema, self.right.schema):
            missing = [name for name in self.on if name not in side]
            if missing:
                raise BadProgram(f"{self.line}: one side has no column {missing[0]!r}", hint=_columns(side))
        for name in self.on:
            if self.left.schema[name] != self.right.schema[name]:
                raise BadProgram(
                    f"{self.line}: {name} is {self.left.schema[name]}, and {self.right.schema[name]} on the right side",
                    hint="cast one of them to the other's type",
                )
        twice = sorted((set(self.left.schema) & set(self.right.schema)) - {*WINDOW_COLUMNS, *self.on})
        if twice:
            raise BadProgram(f"{self.line}: both sides have {', '.join(twice)}", hint="rename the columns of one side")

    def __str__(self) -> str:
        return f"{self.how} join of windows on {', '.join(self.on)}" if self.on else "zip"


@dataclass(frozen=True, eq=False)
class Gathered(Node):
    """All rows of a window in one place: the top ones, or each once."""

    before: Node
    what: Literal["top_k", "unique", "sort"]
    by: tuple[str, ...]
    n: int = 0
    ties: bool = False
    descending: bool = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.before,)

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.before.schema

    @cached_property
    def place(self) -> Place:
        return "gathered"

    def check(self) -> None:
        if self.before.place == "local":
            raise BadProgram(
                f"{self.line}: {self.what} needs all rows, and each partition has its own",
                hint="aggregate them in a window first: .window(...).agg(best=h.top_k(...))",
            )
        if self.kind is None or not self.by:
            raise BadProgram(f"{self.line}: {self.what} by no column", hint='name some: top_k(3, by="price")')
        if self.what == "top_k" and self.n < 1:
            raise BadProgram(f"{self.line}: the top {self.n} rows", hint="ask for one or more: top_k(3, by=...)")
        missing = [name for name in self.by if self.before.schema is not None and name not in self.before.schema]
        if missing:
            raise BadProgram(f"{self.line}: no column {missing[0]!r}", hint=_columns(self.before.schema or pl.Schema()))

    def __str__(self) -> str:
        if self.what == "top_k":
            return f"top {self.n} by {', '.join(self.by)}{' with ties' if self.ties else ''}"
        return f"{self.what} {', '.join(self.by)}"


@dataclass(frozen=True, eq=False)
class At(Node):
    """Results counted at another time than that of their window, never an earlier one."""

    before: Node
    time: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.before,)

    @cached_property
    def grain(self) -> AlignedSpec | None:
        window = self.kind.window if self.kind is not None else None
        return window.aligned if window is not None and window.known_ahead else None

    @cached_property
    def schema(self) -> pl.Schema | None:
        return self.before.schema

    def check(self) -> None:
        if self.kind is None:
            raise BadProgram(
                f"{self.line}: rows of a stream have their own time",
                hint=f"h.source(..., time={self.time!r}), or after a window",
            )
        if self.schema is not None and self.time not in self.schema:
            raise BadProgram(f"{self.line}: no column {self.time!r}", hint=_columns(self.schema))
        if self.schema is not None:
            _check_time(self.line, self.time, self.schema[self.time])

    def __str__(self) -> str:
        return f"at {self.time}"


@dataclass(frozen=True, eq=False)
class Sink:
    """Where rows go: a channel of the job."""

    line: ClassVar[str] = ""
    """Where it was written; no field, as in nodes."""

    node: Node
    channel: str
    discard: bool = False
    """Whether the rows are only made, and go nowhere."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", line_of_user())


def _by_row(before: Node, item: object, line: str) -> None:
    """Raises if an expression looks beyond its row where not all rows of a window are in one place."""
    found = None if before.place == "gathered" else across_rows(item)
    if found is None:
        return
    if before.kind is None:
        raise BadProgram(
            f"{line}: {found} looks beyond its row, so it would depend on where a batch ends",
            hint="what is about many rows is an aggregate of a window",
        )
    raise BadProgram(
        f"{line}: {found} looks beyond its row, and each partition has only some of the window's rows",
        hint="sort(...) or top_k(...) first: they bring all rows of a window to one place",
    )


def _check_time(line: str, name: str, dtype: pl.DataType) -> None:
    if not (isinstance(dtype, pl.Datetime) or dtype == pl.Date or dtype.is_integer()):
        raise BadProgram(
            f"{line}: time column {name!r} is {dtype}",
            hint="it must be a timestamp, a date, or integer microseconds since 1970",
        )


def _columns(schema: pl.Schema) -> str:
    return f"there are {', '.join(schema)}"
