"""Random programs: what a description of `random_jobs.py` says, as an `h.Program`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

import holons as h
from holons.algebra import Distribution
from holons.engines.simulator.random_jobs import CallbackSpec, Element, HandleSpec, JobSpec, ProgramSpec
from holons.windows import BEGINNING, Window, micros

JUMP: Final = "700ms"
"""How far ahead of a row's own time the programs move the clock by hand."""

Built: TypeAlias = Any
"""A program of `program_of`: it has an attribute for each name in its description, and the description as `spec`."""
Given: TypeAlias = Any
"""What handles are fed from: a batch of rows, one row, or columns by name."""
Value: TypeAlias = Any
"""A value of an aggregate, or a part of one."""


def job_of(spec: JobSpec) -> h.Job:
    """Returns the job that a description describes."""
    inputs = [h.Input(name, disorder=f"{disorder_us}us") for name, disorder_us in spec.streams]
    return h.job(program_of(spec.program), *inputs)


def program_of(spec: ProgramSpec, asynchronous: bool = False) -> h.Program:
    """The program of a description: an instance of a class of its own, which travels by value."""
    asynchronous |= spec.asynchronous
    attributes: dict[str, Any] = {"spec": spec, "emit": spec.emit}
    for handle in spec.handles:
        attributes[handle.name] = handle.declared()
    for callback in spec.callbacks:
        attributes[callback.name] = h.on_window(attributes[callback.handles[0]])(_on_window(callback))
        attributes[f"calls_{callback.stage}"] = h.Local({}, scope="window")
    attributes["seen"] = h.Local(0)
    attributes["hand"] = h.Local(BEGINNING)
    attributes["recent"] = h.Local({})
    if spec.nested is not None:
        attributes["inner"] = h.Nested(program_of(spec.nested, asynchronous))
    plain = {"process": _process, "each": _each}
    awaiting = {"process": _process_awaiting, "each": _each_awaiting}
    attributes[spec.entry] = (awaiting if asynchronous else plain)[spec.entry]
    return type("Random", (h.Program,), attributes)()


def _process(self: Built, events: h.Events) -> None:
    _handle_batch(self, events, _places(self, events))
    if self.spec.nested is not None:
        self.inner.process(events.where(pl.col("n") > 0))


async def _process_awaiting(self: Built, events: h.Events) -> None:
    spec, places = self.spec, _places(self, events)
    _handle_batch(self, events, places)
    if spec.awaits is not None:
        for window, run in events.by_window(getattr(self, spec.awaits.handle)):
            known = text(await getattr(self, spec.awaits.handle).completed(_awaited(self, window.start)))
            for handle in _fed(spec, run.stream, "even awaits"):
                if _number(known) % 2 == 0:
                    _insert(self, handle, run, run.ts)
            if "process" in spec.outputs:
                self.output(run.select("user", known=pl.lit(known)), f"{spec.prefix}known")
    if spec.nested is not None:
        await self.inner.process(events.where(pl.col("n") > 0))


def _handle_batch(self: Built, events: h.Events, places: np.ndarray) -> None:
    """Inserts and outputs of a batch, row by row: `places` are the rows' numbers since the beginning."""
    spec = self.spec
    hand = _hand_before(self, events) if spec.advanced else None
    for handle in spec.handles:
        chosen = _chosen(handle.rows, events, places)
        if handle.stage or chosen is None:
            continue
        if hand is not None:
            chosen = chosen & (events.ts.micros >= hand)
        some = events.take(chosen)
        _insert(self, handle, some, some.ts + handle.ahead if handle.ahead else some.ts)
    if spec.advanced:
        jumps = events.where(events["k"] == 3)
        getattr(self, spec.advanced).advance(jumps.ts + JUMP)
    for channel in spec.outputs:
        name = channel if channel == "process" and not spec.prefix else spec.prefix + channel
        if channel == "positive":
            self.output(events.where(pl.col("k") > 0).select("user", "k", "x"), name)
        else:
            self.output(events.where(pl.col("k") < 2).select("k", "n", why=pl.lit("small")), name)
            if channel == "twice":
                self.output(events.where(pl.col("n") > 0).select("k", "n", why=pl.lit("counts")), name)
    if spec.remembers:
        known = [_remember(self, user) for user in events["user"].to_list()]
        self.output(events.select("k", recent=pl.Series(known, dtype=pl.String)), f"{spec.prefix}recent")


def _places(self: Built, events: h.Events) -> np.ndarray:
    places = self.seen.value + np.arange(len(events))
    self.seen.value += len(events)
    return places


def _hand_before(self: Built, events: h.Events) -> np.ndarray:
    """The clock as it was moved by hand, before each row."""
    jumps = np.where((events["k"] == 3).fill_null(False).to_numpy(), events.ts.micros + micros(JUMP), BEGINNING)
    reached = np.maximum.accumulate(np.concatenate(([self.hand.value], jumps)))
    self.hand.value = int(reached[-1])
    return reached[:-1]


def _chosen(rows: str, events: h.Events, places: np.ndarray) -> np.ndarray | None:
    if rows == "positive":
        return (events["k"] > 0).fill_null(False).to_numpy()
    if rows == "third":
        return places % 3 == 0
    if rows == "even awaits" or (rows == "stream a" and events.stream != "a"):
        return None
    return np.ones(len(events), dtype=np.bool_)


def _each(self: Built, event: h.Event) -> None:
    _handle_row(self, event)
    if self.spec.nested is not None and (event["n"] or 0) > 0:
        self.inner.each(event)


async def _each_awaiting(self: Built, event: h.Event) -> None:
    spec = self.spec
    _handle_row(self, event)
    if spec.awaits is not None:
        known = text(await getattr(self, spec.awaits.handle).completed(_awaited(self, event.ts)))
        for handle in _fed(spec, event.stream, "even awaits"):
            if _number(known) % 2 == 0:
                _insert(self, handle, event, event.ts)
        if "process" in spec.outputs:
            self.output({"ts": event.ts, "known": known}, f"{spec.prefix}known")
    if spec.nested is not None and (event["n"] or 0) > 0:
        await self.inner.each(event)


def _handle_row(self: Built, event: h.Event) -> None:
    spec, place = self.spec, self.seen.value
    self.seen.value = place + 1
    ahead = {"0s": 0, "1500ms": 1_500_000, None: 0}
    for rows, wanted in [
        ("all", True),
        ("positive", (event["k"] or 0) > 0),
        ("third", place % 3 == 0),
        ("stream a", event.stream == "a"),
    ]:
        for handle in _fed(spec, event.stream, rows):
            if wanted and event.ts >= self.hand.value:
                _insert(self, handle, event, event.ts + ahead[handle.ahead])
    if spec.advanced and event["k"] == 3:
        getattr(self, spec.advanced).advance(event.ts + micros(JUMP))
        self.hand.value = max(self.hand.value, event.ts + micros(JUMP))
    if spec.remembers:
        self.output({"recent": _remember(self, event["user"])}, f"{spec.prefix}recent")
    for channel in spec.outputs:
        if (event["k"] or 0) > 0:
            shown = {"k": event["k"], "place": place} | ({"n": event["n"]} if event["n"] else {})
            self.output(shown, spec.prefix + channel)


def _remember(self: Built, user: str | None) -> str:
    """The last three users and how often they came: a dict, changed in place, whose order is seen."""
    recent = self.recent.value
    recent[user] = recent.pop(user, 0) + 1
    if len(recent) > 3:
        del recent[next(iter(recent))]
    return str(recent)


def _fed(spec: ProgramSpec, stream: str, rows: str) -> list[HandleSpec]:
    """The handles of stage 0 that are fed with such rows."""
    return [handle for handle in spec.handles if handle.stage == 0 and handle.rows == rows]


def _insert(self: Built, handle: HandleSpec, row: Given, ts: Given) -> None:
    key = {} if handle.key is None else {"key": _column(row, handle.key)}
    getattr(self, handle.name).insert(_element(handle.element, row), ts, **key)


def _element(element: Element, row: Given) -> Element:
    """An element of a batch, or of one row."""
    if isinstance(element, tuple):
        return tuple(_element(part, row) for part in element)
    if isinstance(element, dict):
        return {name: _element(part, row) for name, part in element.items()}
    return _column(row, element) if isinstance(element, str) else element


def _column(row: Given, name: str) -> Element:
    if name == "gone":
        return None if row["k"] is None else row["k"] > 1
    if name == "mixed":  # one by one, values of different types meet
        return row["k"] if isinstance(row, h.Event) and row["n"] == 1 else row["x"]
    return row[name]


def _awaited(self: Built, before: int) -> Window:
    """The newest window of the awaited handle that surely was sealed by this partition at an instant."""
    awaits = self.spec.awaits
    window = getattr(self, awaits.handle).window
    end = window.boundary(before - awaits.lag_us)
    return Window(end - window.size_us, end)


# --- completed windows ------------------------------------------------------------------------------------------------


def _on_window(callback: CallbackSpec) -> Callable[[Built, Window], Iterable[object]]:
    def on_window(self: Built, window: Window) -> Iterable[object]:
        read = _read(self, callback, window)
        for handle in self.spec.handles:
            if callback.name in handle.fed_by:
                _feed(self, handle, window, str(read))
        if callback.counts_itself:
            calls = getattr(self, f"calls_{callback.stage}")
            calls.value[callback.name] = calls.value.get(callback.name, 0) + 1
            read["calls"] = str(calls.value)
        given = {"start": window.start, "end": window.end, "key": str(window.key), **read}
        if callback.gives == "frame":
            return [pl.DataFrame([given, given])]
        return [given] * ["nothing", "rows", "two rows"].index(callback.gives)

    return on_window


def _read(self: Built, callback: CallbackSpec, window: Window) -> dict[str, str]:
    """All that may be read: its own handles, and others' windows that ended by then and are still kept."""
    read: dict[str, str] = {}
    for handle in self.spec.handles:
        if handle.stage > callback.stage or (not handle.shared and self.emit == "once"):
            continue
        bound = getattr(self, handle.name)
        if handle.window.counted or self.spec.handle(callback.handles[0]).window.counted:
            if handle.name in callback.handles:
                read |= _read_counted(bound, window, callback.share)
            continue
        if handle.name in callback.handles:
            read[handle.name] = text(bound[window], share=callback.share)
        if handle.window.known_ahead:
            end = handle.window.boundary(window.end)
            newest = Window(end - handle.window.size_us, end)
            for name, other in [("newest", newest), ("before", handle.window.before(newest))]:
                if other.end >= window.end - bound.keep_us:
                    read[f"{name}_{handle.name}"] = text(bound[other], share=callback.share)
    return read


def _read_counted(bound: Value, window: Window, share: bool) -> dict[str, str]:
    """A count window, when its last row was, and the window before."""
    read = {"counted": text(bound[window], share=share), "last": str(bound.last_time(window))}
    before = bound.window.before(window)
    if before.start >= 0:
        read |= {"before": text(bound[before], share=share), "last_before": str(bound.last_time(before))}
    return read


def _feed(self: Built, handle: HandleSpec, window: Window, known: str) -> None:
    """Inserts what a window known into the next stage, at the window itself or later."""
    rows = [_row_of(_number(f"{known} {number}")) for number in range(3 if handle.several else 1)]
    given = {name: pl.Series([row[name] for row in rows]) if handle.several else rows[0][name] for name in rows[0]}
    ts = window if handle.ahead is None else window.end + micros(handle.ahead, zero_allowed=True)
    _insert(self, handle, given, ts)


def _row_of(number: int) -> dict[str, Any]:
    return {"user": "abcd"[number % 4], "k": number % 7 - 3, "n": number % 5, "x": number % 1000 / 10}


def _number(known: str) -> int:
    return zlib.crc32(known.encode())


def text(value: object, share: bool = False) -> str:
    """Any value of an aggregate as canonical text."""
    return repr(_plain(value.share() if share and isinstance(value, h.Keyed) else value))


def _plain(value: Value) -> Value:
    if isinstance(value, h.Keyed):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Distribution):
        return value.buckets, value.counts, value.nans
    return value
