"""A plan as a program: rows go through `process` into handles, completed windows through `on_window` to where they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from holons.algebra import Aggregate as Crdt
from holons.algebra import GCounter, IntArray, Keyed, MergeMap, Product, Ranked
from holons.algebra.hashing import hash64
from holons.algebra.ranked import TIME
from holons.errors import BadElement, BadInput, BadProgram
from holons.program.dataflow.columns import packed, packed_names, restored, unpacked
from holons.program.dataflow.history import History
from holons.program.dataflow.joining import RIGHT_TIME, close_pairs, joined
from holons.program.dataflow.lines import written_at
from holons.program.dataflow.needs import Names, Side, columns_needed, kept_of, line_that_reads
from holons.program.dataflow.plan import (
    END,
    INSTANT,
    START,
    Aggregate,
    At,
    Gathered,
    Join,
    Kind,
    Node,
    Pair,
    Sink,
    Source,
    Stepped,
    Union,
    nodes,
)
from holons.program.dataflow.steps import Part
from holons.program.events import Events, event_times
from holons.program.handles import WCRDT, WindowedHandle, WLocal
from holons.program.program import Program
from holons.windows import Window

_ROWS: Final = "rows!"

Memo = dict[tuple[int, bool], Any]


class Pipeline(Program):
    """The program that a plan is lowered to. Its handles are attributes: `aggregate_2`, `join_4_left` …"""

    emit = "each"

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = tuple(sinks)
        self.nodes = tuple(nodes(*(sink.node for sink in sinks)))
        self.needs = columns_needed(sinks)
        self.windows: dict[str, Kind] = {}
        for node in self.nodes:
            if isinstance(node, Aggregate):
                self._declare(node, self._name(node))
            elif isinstance(node, Join):
                self._declare_join(node, self._name(node))

    # --- handles ----------------------------------------------------------------------------------------------------

    def _declare(self, node: Aggregate, name: str) -> None:
        handle = WLocal if node.local else WCRDT
        stage = node.before.next_stage
        setattr(self, name, handle(self._crdt(node), node.window, accumulate=node.accumulate, stage=stage))
        self._add(node.kind)
        if node.accumulate:  # what has changed since the window before
            changed = MergeMap(GCounter()) if node.keys else GCounter()
            setattr(self, f"{name}_changed", handle(changed, node.window, stage=stage))

    def _declare_join(self, node: Join, name: str) -> None:
        stage, reach_us = node.kind.stage, {"left": 0, "right": 0}
        if node.bounds is not None:
            reach_us = {"left": node.bounds.after_us, "right": node.bounds.before_us}
            setattr(self, f"{name}_history", History())
        handles: tuple[tuple[Side, type[WLocal] | type[WCRDT]], ...] = (("left", WLocal), ("right", WCRDT))
        for side, handle in handles:
            rows = Ranked(packed_names(self._kept(node, side)))
            keep_us = node.window.keep_to_reach(reach_us[side])
            declared = handle(rows, node.window, keep=f"{keep_us}us", stage=stage)
            declared.own_stage = True
            setattr(self, f"{name}_{side}", declared)
        self._add(node.kind)

    def _kept(self, node: Join, side: Side) -> tuple[str, ...]:
        """The columns that are kept of a side: those that somebody reads later."""
        return kept_of(node, self.needs.joins[self.nodes.index(node)], side)

    def _add(self, kind: Kind) -> None:
        if kind not in self.windows.values():
            self.windows[f"windows_{len(self.windows)}"] = kind

    def _name(self, node: Aggregate | Join) -> str:
        return f"{type(node).__name__.lower()}_{self.nodes.index(node)}"

    def _crdt(self, node: Aggregate) -> Crdt[Any]:
        fields = {name: measure.crdt(node.before.schema) for name, measure in node.measures}
        if node.window.keyed:
            return Product(fields)
        if not node.keys:
            return Product({**fields, _ROWS: GCounter()})
        alone = len(fields) == 1 and node.measures[0][1].counts_every_row
        return MergeMap(GCounter() if alone else Product(fields))

    # --- what the runtime asks for ------------------------------------------------------------------------------------

    def _window_methods(self) -> dict[str, WindowedHandle[Any]]:
        """Which of our handles stands for which windows."""
        found: dict[str, WindowedHandle[Any]] = {}
        for name, kind in self.windows.items():
            node = next(one for one in self.nodes if isinstance(one, Aggregate | Join) and one.kind == kind)
            own = self._name(node)
            found[name] = getattr(self, f"{own}_left" if isinstance(node, Join) else own)
        return found

    def _channel_schema(self, channel: str) -> pl.Schema | None:
        return next((sink.node.schema for sink in self.sinks if sink.channel == channel), None)

    def _stream_schema(self, stream: str) -> pl.Schema | None:
        return next((one.columns for one in self.nodes if isinstance(one, Source) and one.stream == stream), None)

    def _line_that_reads(self, stream: str, column: str) -> str:
        return line_that_reads(self.nodes, stream, column)

    def _time_hint(self, stream: str) -> str:
        return f'h.source("{stream}", time="...")'

    def _channel_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sink.channel for sink in self.sinks))

    def _channels_of(self, method: str) -> tuple[str, ...]:
        return tuple(sink.channel for sink in self.sinks if sink.node.kind == self.windows[method])

    def __getattr__(self, name: str) -> Callable[[Window], None]:
        if name.startswith("windows_"):
            return partial(self._completed, self.windows[name])
        raise AttributeError(name)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def process(self, events: Events) -> None:
        """Every aggregate, join and sink over rows takes those of this batch that are for it."""
        memo: Memo = {}
        for node in self.nodes:
            if isinstance(node, Aggregate) and node.before.kind is None:
                for batch in self._rows(node.before, events, memo):
                    self._insert(node, batch.frame, batch.ts)
            elif isinstance(node, Join) and node.left.kind is None:
                for side, before in _sides(node):
                    for batch in self._rows(before, events, memo):
                        self._keep(node, side, batch.frame, batch.ts)
        for sink in self.sinks:
            if sink.node.kind is None:
                for batch in self._rows(sink.node, events, memo):
                    if not sink.discard:
                        self.output(batch, sink.channel)

    def _rows(self, node: Node, events: Events, memo: Memo) -> list[Events]:
        """What a batch of one stream becomes at a node; nothing if it is for other streams."""
        key = id(node), False
        if key not in memo:
            memo[key] = [batch for batch in self._made(node, events, memo) if len(batch)]
        return memo[key]

    def _made(self, node: Node, events: Events, memo: Memo) -> Iterator[Events]:
        if isinstance(node, Source):
            if node.stream == events.stream:
                yield _typed(events, node, self.needs.streams[node.stream])
        elif isinstance(node, Union):
            for part in node.parts:
                yield from self._rows(part, events, memo)
        else:
            assert isinstance(node, Stepped)
            for batch in self._rows(node.before, events, memo):
                with written_at(node.line, node):
                    yield node.step.apply(batch)

    def _insert(self, node: Aggregate, frame: pl.DataFrame, ts: Any) -> None:  # noqa: ANN401 - Times, or a column
        name = self._name(node)
        with written_at(node.line, node):
            measures = {field: measure.checked(frame, node.before.schema) for field, measure in node.measures}
            handle: WindowedHandle[Any] = getattr(self, name)
            if node.before.schema is None:
                _check_keys(frame, node.keys)
            if node.window.keyed:
                handle.insert(measures, ts, key=frame[node.keys[0]] if node.keys else _constant(frame))
                return
            if not node.keys:
                one: object = _constant(frame, 1)
                handle.insert({**measures, _ROWS: one}, ts)
            else:
                key = _key(frame, node.keys)
                alone, one = isinstance(handle.crdt, MergeMap) and isinstance(handle.crdt.inner, GCounter), (key, 1)
                handle.insert(one if alone else (key, measures), ts)
            if node.accumulate:
                getattr(self, f"{name}_changed").insert(one, ts)

    def _keep(self, node: Join, side: Side, frame: pl.DataFrame, ts: Any) -> None:  # noqa: ANN401
        with written_at(node.line, node):
            getattr(self, f"{self._name(node)}_{side}").insert(packed(frame, self._kept(node, side)), ts)

    # --- completed windows ----------------------------------------------------------------------------------------------

    def _completed(self, kind: Kind, window: Window) -> None:
        """A window of one kind is completed: to the sinks, and into the windows that follow."""
        memo: Memo = {}
        for sink in self.sinks:
            if sink.node.kind == kind:
                part = self._mine(sink.node, window, memo)
                if part is not None and len(part.frame) and not sink.discard:
                    self.output(part.frame, sink.channel)
        for node in self.nodes:
            if isinstance(node, Aggregate) and node.before.kind == kind:
                part = self._mine(node.before, window, memo)
                if part is not None and len(part.frame):
                    self._insert(node, part.frame, part.micros)
            elif isinstance(node, Join):
                for side, before in _sides(node):
                    part = self._mine(before, window, memo) if before.kind == kind else None
                    if part is not None and len(part.frame):
                        self._keep(node, side, part.frame, part.micros)

    def _mine(self, node: Node, window: Window, memo: Memo) -> Part | None:
        """What this partition has to say about a window."""
        whole = node.place == "gathered"
        if whole and self.partition != 0:
            return None
        if not whole and window.key is not None and _speaker(window.key, self.partitions) != self.partition:
            return None
        first, whole_first = node, whole  # where rows come from: of no pairs nothing comes, so no step need be taken
        while isinstance(first, Stepped | Gathered | At):
            first, whole_first = first.before, whole_first or isinstance(first, Gathered)
        if isinstance(first, Join) and not len(self._part(first, window, memo, whole=whole_first).frame):
            return None
        return self._part(node, window, memo, whole=whole)

    def _part(self, node: Node, window: Window, memo: Memo, *, whole: bool) -> Part:
        key = id(node), whole
        if key not in memo:
            with written_at(node.line, node):
                memo[key] = self._read(node, window, memo, whole)
        part: Part = memo[key]
        return part

    def _read(self, node: Node, window: Window, memo: Memo, whole: bool) -> Part:
        if isinstance(node, Aggregate):
            return self._values(node, window, whole)
        if isinstance(node, Join):
            return self._pairs(node, window)
        if isinstance(node, Stepped | Gathered | At):
            if isinstance(node, Gathered) and node.what == "top_k" and isinstance(node.before, Aggregate):
                part = self._values(node.before, window, whole=True, top=node)
            else:
                part = self._part(node.before, window, memo, whole=whole or isinstance(node, Gathered))
            return part if _untyped(part, node) else _after(node, part, window)
        assert isinstance(node, Pair)
        left = self._part(node.left, window, memo, whole=whole)
        right = self._part(node.right, window, memo, whole=node.right.place != "local")
        if _untyped(left, node) or _untyped(right, node):
            return left.take(np.arange(0))
        return _paired(node, left, right)

    def _values(self, node: Aggregate, window: Window, whole: bool, top: Gathered | None = None) -> Part:
        """The measures of a completed window: a row for each key, or one. If only the top ones matter, not many more."""
        name, schema = self._name(node), node.before.schema
        value = getattr(self, name)[window]
        if isinstance(value, Keyed):
            if node.accumulate:
                value = value.only(getattr(self, f"{name}_changed")[window].keys)
            value = value if whole else value.share()
            columns = value.fields if value.fields is not None else {node.measures[0][0]: value.values}
            if top is not None and top.by[0] in columns:
                value = _largest(value, columns[top.by[0]], top.n)
                columns = value.fields if value.fields is not None else {node.measures[0][0]: value.values}
            keys = _keys(value.keys, node.keys, schema)
        else:
            there = node.window.keyed
            if not there:
                there = (getattr(self, f"{name}_changed")[window] if node.accumulate else value[_ROWS]) > 0
            columns = {field: _one(value[field])[: 1 if there else 0] for field, _ in node.measures}
            keys = _keys([window.key], node.keys, schema) if node.keys else {}
        measured = {field: measure.read(columns[field], schema).alias(field) for field, measure in node.measures}
        return Part.of(_stamped(pl.DataFrame({**keys, **measured}), window), window.last)

    def _pairs(self, node: Join, window: Window) -> Part:
        """The pairs that a completed window adds."""
        name, spec = self._name(node), node.window

        def rows(side: Side, at: Window) -> pl.DataFrame:
            schema = (node.left if side == "left" else node.right).schema
            assert schema is not None
            kept = getattr(self, f"{name}_{side}")[at]
            time = pl.Series(TIME if side == "left" else RIGHT_TIME, kept[TIME], dtype=pl.Int64)
            return unpacked(kept, self._kept(node, side), schema, time)

        left = rows("left", window)
        if node.bounds is None:
            sides = (side.drop(START, END, strict=False) for side in (left, rows("right", window)))
            pairs = _stamped(joined(node, *sides).drop(TIME, RIGHT_TIME, strict=False), window)
        else:
            history: History = getattr(self, f"{name}_history")
            before_us, after_us = node.bounds.before_us, node.bounds.after_us
            old_left = history.rows("left", window, spec, after_us, partial(rows, "left"), left)
            history.add("left", window, left)
            if not len(left) and not len(old_left):  # a partition may have rows of other streams only
                return Part(self._no_pair(node), np.zeros(0, dtype=np.int64))
            right = rows("right", window)
            old_right = history.rows("right", window, spec, before_us, partial(rows, "right"), right)
            history.add("right", window, right)
            known = pl.concat([old_right, right], rechunk=True) if len(old_right) else right  # rows are taken out of it
            pairs = close_pairs(node, node.bounds, left, known)
            if len(old_left):
                pairs = pl.concat([pairs, close_pairs(node, node.bounds, old_left, right)])
        return Part.of(pairs, window.last)

    def _no_pair(self, node: Join) -> pl.DataFrame:
        assert node.schema is not None
        kept = {*self._kept(node, "left"), *self._kept(node, "right")}
        return pl.Schema({name: dtype for name, dtype in node.schema.items() if name in kept}).to_frame()


def _sides(node: Join) -> tuple[tuple[Side, Node], tuple[Side, Node]]:
    return ("left", node.left), ("right", node.right)


def _later(column: pl.Series, window: Window, line: str) -> IntArray:
    """The times at which results of a window count: within it, all are the same to the windows that follow."""
    times = event_times(column, "results")
    if times.null_count() or (len(times) and int(times.min()) < window.start):  # type: ignore[arg-type]
        raise BadInput(
            f"{line}: {column.name!r} is null in some rows, or before {window}, which is over",
            hint="filter such rows out before at(...)",
        )
    return np.maximum(times.to_numpy(), window.last)


def _untyped(part: Part, node: Node) -> bool:
    """Whether there is no row, and nobody knows of which types it would be: nothing comes of nothing."""
    return not len(part.frame) and node.schema is None


def _after(node: Stepped | Gathered | At, part: Part, window: Window) -> Part:
    if isinstance(node, Stepped):
        return node.step.apply(part)
    if isinstance(node, Gathered):
        return _gathered(node, part)
    return Part(part.frame, _later(part.frame[node.time], window, node.line))


def _gathered(node: Gathered, part: Part) -> Part:
    frame = part.frame
    if node.what == "unique":
        chosen = frame.select(pl.struct(node.by).is_first_distinct()).to_series().to_numpy()
        return part.take(chosen)
    numbered = frame.with_row_index("row!")
    if node.what == "top_k":
        numbered = _near_the_top(numbered, node.by[0], node.n)
    others = [name for name in frame.columns if name not in node.by and not frame.schema[name].is_nested()]
    down = [node.descending] * len(node.by) + [False] * len(others)
    by = [pl.col(name).fill_nan(None) if frame[name].dtype.is_float() else pl.col(name) for name in node.by]
    order = numbered.sort(*by, *others, descending=down, nulls_last=True, maintain_order=True)
    if node.what == "top_k" and len(order) > node.n:
        place = order.select(pl.struct(by).rle_id()).to_series()
        order = order.filter(place <= place[node.n - 1]) if node.ties else order.head(node.n)
    return part.take(order["row!"].to_numpy())


def _largest(value: Keyed[Any], column: npt.NDArray[np.generic], n: int) -> Keyed[Any]:
    """The keys that may be among the top ones: all that have at least as much as the n-th, if that is an integer."""
    if column.dtype.kind != "i" or len(column) <= n:
        return value
    return value.where(column >= (column.max() if n == 1 else np.partition(column, -n)[-n]))


def _near_the_top(frame: pl.DataFrame, by: str, n: int) -> pl.DataFrame:
    """Without most of the rows that are not among the top ones: all that are at least as large as the n-th are kept."""
    largest = frame[by].drop_nulls().top_k(n)
    return frame.filter(pl.col(by) >= largest.min()) if len(largest) == n and not frame[by].dtype.is_float() else frame


def _paired(node: Pair, left: Part, right: Part) -> Part:
    frame = right.frame.drop(START, END, strict=False)
    if not node.on:
        if len(left.frame) > 1 or len(frame) > 1:
            raise BadProgram(
                f"{node.line}: zip of several rows", hint="name the columns that they share: join(..., on=...)"
            )
        both = min(len(left.frame), len(frame))
        return Part(pl.concat([left.frame.head(both), frame.head(both)], how="horizontal"), left.micros[:both])
    numbered = left.frame.with_row_index("row!")
    joined = numbered.join(frame, on=list(node.on), how=node.how, maintain_order="left_right")
    return Part(joined.drop("row!"), left.micros[joined["row!"].to_numpy()])


def _typed(events: Events, source: Source, needed: Names) -> Events:
    """The batch, with the types that its source promised."""
    if source.columns is None:
        return events
    read = [name for name in source.columns if needed is None or name in needed]
    missing = [name for name in read if name not in events.columns]
    if missing:
        with written_at(source.line, f"stream {source.stream!r}"):
            events[missing[0]]  # says what there is
    promised = [name for name in source.columns if name in events.columns]
    if promised and promised != events.columns:
        events = events.select(*promised)
    wrong = [name for name in read if events.frame.schema[name] != source.columns[name]]
    if wrong:
        with written_at(source.line, f"stream {source.stream!r} is not as its schema says"):
            return events.with_columns(*(_kept_as(events.frame[name], source.columns[name]) for name in wrong))
    return events


def _kept_as(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column in another type, if no value is lost; times may lose what is below their unit."""
    made = column.cast(dtype)
    plain = not (column.dtype.is_nested() or column.dtype == pl.Null)
    if not plain or (column.dtype.is_temporal() and dtype.is_temporal()):
        return made
    lost = made.cast(column.dtype).ne_missing(column)
    if lost.any():
        first = int(lost.arg_true()[0])
        told = f"{column[first]!r} would be {made[first]!r}"
        raise BadInput(
            f"column {column.name!r} is {column.dtype}, and its schema says {dtype}: {told}",
            hint="name the type that it has in schema=, and convert it yourself: .with_columns(...)",
        )
    return made


def _key(frame: pl.DataFrame, names: tuple[str, ...]) -> pl.Series:
    """The key of each row: a column, or several as one text. Null if one of them is."""
    for name in names:
        if frame[name].dtype.is_float():
            raise BadInput(f"{name!r} is {frame[name].dtype}, which cannot be a key", hint="round it, or format it")
    if len(names) == 1:
        return frame[names[0]]
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    return frame.select(
        pl.when(known).then(pl.struct(_plain_key(name, frame) for name in names).struct.json_encode())
    ).to_series()


def _check_keys(frame: pl.DataFrame, names: tuple[str, ...]) -> None:
    """Without a schema, nobody could tell later what these numbers were."""
    for name in names:
        dtype = frame[name].dtype
        if dtype.is_temporal() or (dtype == pl.Boolean and len(names) == 1):
            raise BadElement(
                f"the key {name!r} is {dtype}, and would come back as a number",
                hint="give the source a schema: h.source(..., schema={...})",
            )


def _plain_key(name: str, frame: pl.DataFrame) -> pl.Expr:
    return pl.col(name).to_physical().alias(name) if frame[name].dtype.is_temporal() else pl.col(name)


def _keys(keys: Any, names: tuple[str, ...], schema: pl.Schema | None) -> dict[str, pl.Series]:  # noqa: ANN401
    """Key columns, as they were."""
    if len(names) == 1:
        return {names[0]: restored(pl.Series(names[0], keys), schema[names[0]] if schema else None)}
    texts = pl.Series(keys, dtype=pl.String)
    if schema is None:
        columns = texts.str.json_decode(infer_schema_length=None).struct.unnest() if len(texts) else pl.DataFrame()
        return {name: columns[name] if len(texts) else pl.Series(name, []) for name in names}
    plain = {name: pl.Int64() if schema[name].is_temporal() else schema[name] for name in names}
    columns = texts.str.json_decode(pl.Struct(plain)).struct.unnest()
    return {name: restored(columns[name], schema[name]) for name in names}


@lru_cache(maxsize=1 << 16)
def _speaker(key: int | str, partitions: int) -> int:
    """The partition that tells of the sessions of a key."""
    hashed = hash64(pl.Series([key]) if isinstance(key, str) else np.array([key]))
    return int(hashed[0] % np.uint64(partitions))


def _constant(frame: pl.DataFrame, item: int = 0) -> pl.Series:
    return pl.Series([item], dtype=pl.Int64).new_from_index(0, len(frame))


def _one(item: object) -> Any:  # noqa: ANN401
    column = np.empty(1, dtype=object)
    column[0] = item
    return column


def _stamped(frame: pl.DataFrame, window: Window) -> pl.DataFrame:
    """The rows with their window in front."""
    edges = (pl.Series(name, [at], dtype=pl.Int64) for name, at in ((START, window.start), (END, window.end)))
    stamps = [edge.cast(INSTANT).new_from_index(0, len(frame)) for edge in edges]
    return pl.DataFrame([*stamps, *frame])
