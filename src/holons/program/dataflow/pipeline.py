"""A plan as a program: rows go through `process` into handles, completed windows through `on_window` to where they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import polars as pl

from holons.algebra import Aggregate, GCounter, Keyed, MergeMap, Product, Ranked
from holons.algebra.hashing import hash64
from holons.algebra.ranked import TIME
from holons.program.dataflow.columns import packed, packed_names, unpacked
from holons.program.dataflow.history import History
from holons.program.dataflow.joining import RIGHT_TIME, close_pairs, joined
from holons.program.dataflow.keys import check_keys, key_columns, key_of
from holons.program.dataflow.measure import counting_rows
from holons.program.dataflow.needs import Side, columns_needed, kept_of, line_that_reads
from holons.program.dataflow.plan import (
    END,
    START,
    Aggregation,
    At,
    Gathered,
    Join,
    Pair,
    PlanNode,
    Sink,
    Source,
    Stepped,
    Union,
    WindowSet,
    nodes,
)
from holons.program.dataflow.results import after_step, is_untyped, largest, paired, stamped
from holons.program.dataflow.schemas import as_declared
from holons.program.dataflow.steps import Part
from holons.program.events import Events, Times
from holons.program.handles import WCRDT, WindowedHandle, WLocal
from holons.program.lines import written_at
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
        self.window_sets: dict[str, WindowSet] = {}
        for node in self.nodes:
            if isinstance(node, Aggregation):
                self._declare(node, self._name(node))
            elif isinstance(node, Join):
                self._declare_join(node, self._name(node))

    # --- handles ----------------------------------------------------------------------------------------------------

    def _declare(self, node: Aggregation, name: str) -> None:
        handle = WLocal if node.local else WCRDT
        stage = node.before.next_stage
        setattr(self, name, handle(self._crdt(node), node.window, accumulate=node.accumulate, stage=stage))
        self._add(node.windows)
        if node.accumulate:  # what has changed since the window before
            changed = MergeMap(GCounter()) if node.keys else GCounter()
            setattr(self, f"{name}_changed", handle(changed, node.window, stage=stage))

    def _declare_join(self, node: Join, name: str) -> None:
        stage, reach_us = node.windows.stage, {"left": 0, "right": 0}
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
        self._add(node.windows)

    def _kept(self, node: Join, side: Side) -> tuple[str, ...]:
        """Returns the columns that are kept of a side: those that a later step reads."""
        return kept_of(node, self.needs.joins[self.nodes.index(node)], side)

    def _add(self, windows: WindowSet) -> None:
        if windows not in self.window_sets.values():
            self.window_sets[f"windows_{len(self.window_sets)}"] = windows

    def _name(self, node: Aggregation | Join) -> str:
        return f"{'join' if isinstance(node, Join) else 'aggregate'}_{self.nodes.index(node)}"

    def _crdt(self, node: Aggregation) -> Aggregate[Any]:
        fields = {name: measure.crdt(node.before.schema) for name, measure in node.measures}
        if node.window.keyed:
            return Product(fields)
        if not node.keys:
            return Product({**fields, _ROWS: GCounter()})
        alone = len(fields) == 1 and node.measures[0][1].counts_every_row
        return MergeMap(GCounter() if alone else Product(fields))

    # --- what the runtime asks for ------------------------------------------------------------------------------------

    def _window_methods(self) -> dict[str, WindowedHandle[Any]]:
        """Returns the handle whose windows each method is called for."""
        methods: dict[str, WindowedHandle[Any]] = {}
        for name, windows in self.window_sets.items():
            node = next(node for node in self.nodes if isinstance(node, Aggregation | Join) and node.windows == windows)
            own = self._name(node)
            methods[name] = getattr(self, f"{own}_left" if isinstance(node, Join) else own)
        return methods

    def _channel_schema(self, channel: str) -> pl.Schema | None:
        return next((sink.node.schema for sink in self.sinks if sink.channel == channel), None)

    def _stream_schema(self, stream: str) -> pl.Schema | None:
        return next((node.columns for node in self.nodes if isinstance(node, Source) and node.stream == stream), None)

    def _line_that_reads(self, stream: str, column: str) -> str:
        return line_that_reads(self.nodes, stream, column)

    def _time_hint(self, stream: str) -> str:
        return f'h.source("{stream}", time="...")'

    def _channel_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sink.channel for sink in self.sinks))

    def _channels_of(self, method: str) -> tuple[str, ...]:
        return tuple(sink.channel for sink in self.sinks if sink.node.windows == self.window_sets[method])

    def __getattr__(self, name: str) -> Callable[[Window], None]:
        if name.startswith("windows_"):
            return partial(self._completed, self.window_sets[name])
        raise AttributeError(name)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def process(self, events: Events) -> None:
        """Passes the rows of a batch to every aggregate, join and sink that is over rows."""
        with events.named_columns():
            self._pass_on(events)

    def _pass_on(self, events: Events) -> None:
        memo: Memo = {}
        for node in self.nodes:
            if isinstance(node, Aggregation) and node.before.windows is None:
                for batch in self._rows(node.before, events, memo):
                    self._insert(node, batch.frame, batch.ts)
            elif isinstance(node, Join) and node.left.windows is None:
                for side, before in _sides(node):
                    for batch in self._rows(before, events, memo):
                        self._keep(node, side, batch.frame, batch.ts)
        for sink in self.sinks:
            if sink.node.windows is None:
                for batch in self._rows(sink.node, events, memo):
                    if not sink.discard:
                        self.output(batch, sink.channel)

    def _rows(self, node: PlanNode, events: Events, memo: Memo) -> list[Events]:
        """Returns what a batch of one stream becomes at a step; nothing if the step is over other streams."""
        key = id(node), False
        if key not in memo:
            memo[key] = [batch for batch in self._made(node, events, memo) if len(batch)]
        return memo[key]

    def _made(self, node: PlanNode, events: Events, memo: Memo) -> Iterator[Events]:
        if isinstance(node, Source):
            if node.stream == events.stream:
                yield as_declared(events, node, self.needs.streams[node.stream])
        elif isinstance(node, Union):
            for part in node.parts:
                yield from self._rows(part, events, memo)
        else:
            assert isinstance(node, Stepped)
            for batch in self._rows(node.before, events, memo):
                with written_at(node.line, node):
                    yield node.step.apply(batch)

    def _insert(self, node: Aggregation, frame: pl.DataFrame, ts: Any) -> None:  # noqa: ANN401 - Times, or a column
        name = self._name(node)
        with written_at(node.line, node):
            if node.window.counted and (counting := counting_rows(frame, dict(node.measures).values())) is not None:
                frame, ts = frame[counting], ts.take(counting) if isinstance(ts, Times) else ts[counting]
            measures = {field: measure.checked(frame, node.before.schema) for field, measure in node.measures}
            handle: WindowedHandle[Any] = getattr(self, name)
            if node.before.schema is None:
                check_keys(frame, node.keys)
            if node.window.keyed:
                handle.insert(measures, ts, key=frame[node.keys[0]] if node.keys else constant_column(frame))
                return
            if not node.keys:
                counted: object = 1 if node.window.counted else constant_column(frame, 1)
                handle.insert({**measures, _ROWS: counted}, ts)
            else:
                key = key_of(frame, node.keys)
                counted = (key, 1)
                only_counts = isinstance(handle.crdt, MergeMap) and isinstance(handle.crdt.inner, GCounter)
                handle.insert(counted if only_counts else (key, measures), ts)
            if node.accumulate:
                getattr(self, f"{name}_changed").insert(counted, ts)

    def _keep(self, node: Join, side: Side, frame: pl.DataFrame, ts: Any) -> None:  # noqa: ANN401
        with written_at(node.line, node):
            getattr(self, f"{self._name(node)}_{side}").insert(packed(frame, self._kept(node, side)), ts)

    # --- completed windows ----------------------------------------------------------------------------------------------

    def _completed(self, windows: WindowSet, window: Window) -> None:
        """Emits a completed window to the sinks, and inserts it into the windows that follow."""
        memo: Memo = {}
        for sink in self.sinks:
            if sink.node.windows == windows:
                part = self._mine(sink.node, window, memo)
                if part is not None and len(part.frame) and not sink.discard:
                    self.output(part.frame, sink.channel)
        for node in self.nodes:
            if isinstance(node, Aggregation) and node.before.windows == windows:
                part = self._mine(node.before, window, memo)
                if part is not None and len(part.frame):
                    self._insert(node, part.frame, part.micros)
            elif isinstance(node, Join):
                for side, before in _sides(node):
                    part = self._mine(before, window, memo) if before.windows == windows else None
                    if part is not None and len(part.frame):
                        self._keep(node, side, part.frame, part.micros)

    def _mine(self, node: PlanNode, window: Window, memo: Memo) -> Part | None:
        """Returns the rows of a window that this partition emits, if it emits any."""
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

    def _part(self, node: PlanNode, window: Window, memo: Memo, *, whole: bool) -> Part:
        key = id(node), whole
        if key not in memo:
            with written_at(node.line, node):
                memo[key] = self._read(node, window, memo, whole)
        part: Part = memo[key]
        return part

    def _read(self, node: PlanNode, window: Window, memo: Memo, whole: bool) -> Part:
        if isinstance(node, Aggregation):
            return self._values(node, window, whole)
        if isinstance(node, Join):
            return self._pairs(node, window)
        if isinstance(node, Stepped | Gathered | At):
            if isinstance(node, Gathered) and node.what == "top_k" and isinstance(node.before, Aggregation):
                part = self._values(node.before, window, whole=True, top=node)
            else:
                part = self._part(node.before, window, memo, whole=whole or isinstance(node, Gathered))
            return part if is_untyped(part, node) else after_step(node, part, window)
        assert isinstance(node, Pair)
        left = self._part(node.left, window, memo, whole=whole)
        right = self._part(node.right, window, memo, whole=node.right.place != "local")
        if is_untyped(left, node) or is_untyped(right, node):
            return left.take(np.arange(0))
        return paired(node, left, right)

    def _values(self, node: Aggregation, window: Window, whole: bool, top: Gathered | None = None) -> Part:
        """Returns the measures of a completed window: a row for each key, or a single row.

        If only the top ones matter, not many more are made.
        """
        name, schema = self._name(node), node.before.schema
        value = getattr(self, name)[window]
        if isinstance(value, Keyed):
            if node.accumulate:
                value = value.only(getattr(self, f"{name}_changed")[window].keys)
            value = value if whole else value.share()
            columns = value.fields if value.fields is not None else {node.measures[0][0]: value.values}
            if top is not None and top.by[0] in columns:
                value = largest(value, columns[top.by[0]], top.n)
                columns = value.fields if value.fields is not None else {node.measures[0][0]: value.values}
            keys = key_columns(value.keys, node.keys, schema)
        else:
            has_rows = node.window.keyed
            if not has_rows:
                has_rows = (getattr(self, f"{name}_changed")[window] if node.accumulate else value[_ROWS]) > 0
            columns = {field: single_value(value[field])[: 1 if has_rows else 0] for field, _ in node.measures}
            keys = key_columns([window.key], node.keys, schema) if node.keys else {}
        measured = {field: measure.read(columns[field], schema).alias(field) for field, measure in node.measures}
        last = getattr(self, name).last_time(window) if node.window.counted else None
        return Part.of(stamped(pl.DataFrame({**keys, **measured}), window, last), window.last)

    def _pairs(self, node: Join, window: Window) -> Part:
        """Returns the pairs that a completed window adds."""
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
            pairs = stamped(joined(node, *sides).drop(TIME, RIGHT_TIME, strict=False), window)
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


def _sides(node: Join) -> tuple[tuple[Side, PlanNode], tuple[Side, PlanNode]]:
    return ("left", node.left), ("right", node.right)


@lru_cache(maxsize=1 << 16)
def _speaker(key: int | str, partitions: int) -> int:
    """Returns the partition that emits the sessions of a key."""
    hashed = hash64(pl.Series([key]) if isinstance(key, str) else np.array([key]))
    return int(hashed[0] % np.uint64(partitions))


def constant_column(frame: pl.DataFrame, item: int = 0) -> pl.Series:
    return pl.Series([item], dtype=pl.Int64).new_from_index(0, len(frame))


def single_value(item: object) -> Any:  # noqa: ANN401
    column = np.empty(1, dtype=object)
    column[0] = item
    return column
