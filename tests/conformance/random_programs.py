"""Random programs: a frozen description drawn from a seed, and a program class built from it.

A description says which handles there are, what feeds them, which windows are read where, and what is put out. Every
program is deterministic and batch-blind by construction, and awaits only what it may; so whatever differs between two
runs of one is a bug of the runtime, or of the oracle.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

import holons as h
from holons.algebra import Distribution
from holons.windows import BEGINNING, FixedSpec, Window, micros

JUMP = "700ms"
"""How far ahead of a row's own time the programs move the clock by hand."""

Element = Any
"""A column's name, a constant, or a tuple or dict of these."""


@dataclass(frozen=True)
class HandleSpec:
    """One windowed handle, and what is inserted into it."""

    name: str
    aggregate: h.Aggregate
    element: Element
    window: Any
    shared: bool = True
    accumulate: bool = False
    keep_us: int | None = None
    stage: int = 0
    key: str | None = None
    """Sessions: the column of the key, if any."""
    rows: str = "all"
    """Which rows are inserted: all, only positive ones, every third, those of one stream, or those of even awaits."""
    ahead: str | None = None
    """How far ahead of its own time a row is inserted."""
    fed_by: tuple[str, ...] = ()
    """Later stages: the callbacks that insert."""
    several: bool = False
    """Later stages: whether a call inserts a column or one row."""

    def declared(self) -> h.WCRDT | h.WLocal:
        keep = None if self.keep_us is None else f"{self.keep_us}us"
        kind = h.WCRDT if self.shared else h.WLocal
        return kind(self.aggregate, self.window, accumulate=self.accumulate, keep=keep, stage=self.stage)


@dataclass(frozen=True)
class CallbackSpec:
    """One `on_window`: for the windows of which handles, and what it gives back."""

    name: str
    handles: tuple[str, ...]
    stage: int
    gives: str
    share: bool
    counts_itself: bool


@dataclass(frozen=True)
class Awaits:
    """What `process` awaits: the newest window of a handle that ends so long before the row's own window."""

    handle: str
    lag_us: int


@dataclass(frozen=True)
class ProgramSpec:
    """A whole program."""

    prefix: str
    handles: tuple[HandleSpec, ...]
    callbacks: tuple[CallbackSpec, ...]
    emit: str
    entry: str
    """`process` or `each`."""
    awaits: Awaits | None = None
    advanced: str | None = None
    """The handle whose clock is moved by hand."""
    outputs: tuple[str, ...] = ()
    """Channels: what each is given is a function of its name."""
    remembers: bool = False
    """Whether a Local of `process` is used."""
    nested: ProgramSpec | None = None

    def handle(self, name: str) -> HandleSpec:
        return next(handle for handle in self.handles if handle.name == name)

    @property
    def asynchronous(self) -> bool:
        return self.awaits is not None or (self.nested is not None and self.nested.asynchronous)


@dataclass(frozen=True)
class JobSpec:
    """A program and its streams, each with its disorder."""

    program: ProgramSpec
    streams: tuple[tuple[str, int], ...] = field(default=(("a", 0),))

    def job(self) -> h.Job:
        inputs = [h.Input(name, disorder=f"{disorder_us}us") for name, disorder_us in self.streams]
        return h.job(program_of(self.program), *inputs)


# --- from a seed to a description -------------------------------------------------------------------------------------

_TUMBLING = ["1s", "700ms", "2s", "5s"]
_SLIDING = [("3s", "2s"), ("2500ms", "1s"), ("1s", "300ms"), ("4s", "1s"), ("2s", "2s"), ("3s", "1400ms")]
_SESSIONS = ["1s", "2s", "700ms", "3us"]


def row(rng: random.Random) -> dict[str, Any]:
    """A row of every stream: a name, an integer, a count and a wild float; now and then one of them is null."""
    broken = rng.random() < 0.12  # not so for `Random(0)`, from which the workload learns the types
    values = {
        "user": rng.choice(["ann", "bob", "cem", "δ", ""]),
        "k": rng.randint(-3, 4),
        "n": rng.choice([0, 1, 1, 2, 900]),
        "x": rng.choice([0.1, 0.2, 0.3, -0.0, 1e16, -1e16, 1e-9, 2.5, float("nan"), float("inf")]),
    }
    return {**values, rng.choice(list(values)): None} if broken else values


def job_spec(seed: int) -> JobSpec:
    """The job of a seed."""
    rng = random.Random(f"program {seed}")
    streams = tuple((name, rng.choice([0, 0, 300_000, 1_500_000])) for name in ["a", "b"][: rng.choice([1, 1, 2])])
    lag_us = max(disorder_us for _, disorder_us in streams)
    entry = rng.choice(["process", "process", "each"])
    program = _program_spec(rng, "", entry)
    nested = _program_spec(rng, "inner_", entry) if rng.random() < 0.2 else None
    others = program.handles + (nested.handles if nested else ())
    if rng.random() < 0.45:
        program = _with_await(rng, program, others, lag_us)
        nested = _with_await(rng, nested, others, lag_us) if nested else None
    elif nested is None and rng.random() < 0.3:  # awaits would not all be legal, and a nested program knows no hand
        first_stage = [handle.name for handle in program.handles if handle.stage == 0]
        program = replace(program, advanced=rng.choice(first_stage))
    return JobSpec(replace(program, nested=nested), streams)


def _program_spec(rng: random.Random, prefix: str, entry: str) -> ProgramSpec:
    windows = [_window(rng) for _ in range(rng.randint(1, 3))]
    handles: list[HandleSpec] = []
    callbacks: list[CallbackSpec] = []
    for number in range(rng.randint(1, 4)):
        reachable = max((callback.stage for callback in callbacks), default=-1) + 1
        stage = rng.choice([0, 0, *range(reachable + 1)]) if number else 0
        handle = _handle_spec(rng, f"{prefix}h{number}", rng.choice(windows), min(stage, 2))
        if handle.stage:
            feeding = [callback.name for callback in callbacks if callback.stage == handle.stage - 1]
            handle = replace(handle, fed_by=tuple(rng.sample(feeding, rng.randint(1, len(feeding)))))
        handles.append(handle)
        callbacks = _callback_specs(prefix, handles, callbacks, rng)
    return ProgramSpec(
        prefix=prefix,
        handles=tuple(handles),
        callbacks=tuple(callbacks),
        emit=rng.choice(["each", "each", "once"]),
        entry=entry,
        outputs=tuple(rng.sample(["process", "positive", "twice"], rng.choice([0, 1, 3]))),
        remembers=rng.random() < 0.5,
    )


def _window(rng: random.Random) -> Any:
    kind = rng.choice(["tumbling", "tumbling", "sliding", "session"])
    if kind == "tumbling":
        return h.Tumbling(rng.choice(_TUMBLING))
    return h.Sliding(*rng.choice(_SLIDING)) if kind == "sliding" else h.Session(rng.choice(_SESSIONS))


def _handle_spec(rng: random.Random, name: str, window: Any, stage: int) -> HandleSpec:
    aggregate, element = _aggregate(rng, depth=2)
    session = isinstance(window, h.Session)
    tumbles = isinstance(window, FixedSpec) and window.size_us == window.every_us
    return HandleSpec(
        name=name,
        aggregate=aggregate,
        element=element,
        window=window,
        shared=session or rng.random() < 0.75,
        accumulate=tumbles and rng.random() < 0.3,
        keep_us=rng.choice([None, None, 0, 1_300_000, 10_000_000]),
        stage=stage,
        key=rng.choice([None, "user", "k"]) if session else None,
        rows=rng.choice(["all", "all", "positive", "third", "stream a", "even awaits"]),
        ahead=rng.choice([None, None, None, "1500ms", "0s"]),
        several=rng.random() < 0.4,
    )


def _callback_specs(
    prefix: str, handles: list[HandleSpec], known: list[CallbackSpec], rng: random.Random
) -> list[CallbackSpec]:
    """One for each kind of windows; those already there keep their name and what they do."""
    kinds: dict[object, list[HandleSpec]] = {}
    for handle in handles:
        apart = handle.name if isinstance(handle.window, h.Session) else None
        kinds.setdefault((handle.stage, handle.window, apart), []).append(handle)
    before = {callback.name: callback for callback in known}
    callbacks = []
    for members in kinds.values():
        name = f"on_{members[0].name}"
        callback = before.get(name) or CallbackSpec(
            name=name,
            handles=(),
            stage=members[0].stage,
            gives=rng.choice(["rows", "rows", "frame", "two rows", "nothing"]),
            share=rng.random() < 0.3,
            counts_itself=rng.random() < 0.5,
        )
        callbacks.append(replace(callback, handles=tuple(handle.name for handle in members)))
    return callbacks


def _with_await(rng: random.Random, spec: ProgramSpec, others: tuple[HandleSpec, ...], lag_us: int) -> ProgramSpec:
    """Awaits some shared handle, as late as it may be awaited; which keeps its windows just as long."""
    candidates = [handle for handle in spec.handles if handle.shared and isinstance(handle.window, FixedSpec)]
    if not candidates:
        return spec
    chosen = rng.choice(candidates)
    if chosen.stage:  # each stage before may be behind by a step of its windows, and by a pane of its sessions
        lag_us += 4 * sum(_step_us(handle.window) for handle in others)
    keep_us = lag_us + chosen.window.size_us + chosen.window.every_us
    handles = tuple(replace(handle, keep_us=keep_us) if handle is chosen else handle for handle in spec.handles)
    return replace(spec, handles=handles, awaits=Awaits(chosen.name, lag_us))


def _step_us(window: Any) -> int:
    return window.every_us if isinstance(window, FixedSpec) else window.gap_us


def _aggregate(rng: random.Random, depth: int) -> tuple[h.Aggregate, Element]:
    """An aggregate, and an element for it."""
    if depth and rng.random() < 0.3:
        inner, element = _aggregate(rng, depth - 1)
        key = rng.choice(["user", "k"])
        return h.MergeMap(inner), (key, *element) if _flattens(element) and rng.random() < 0.5 else (key, element)
    if depth and rng.random() < 0.15:
        parts = {name: _aggregate(rng, depth - 1) for name in ["left", "right"]}
        product = h.Product({name: aggregate for name, (aggregate, _) in parts.items()})
        return product, {name: element for name, (_, element) in parts.items()}
    return rng.choice(
        [
            (h.GCounter(), rng.choice([1, 0, "n"])),
            (h.PNCounter(), "k"),
            (h.Sum("float"), "x"),
            (h.Sum("int"), "k"),
            (h.Average("float"), rng.choice(["x", "k"])),
            (h.Average("int"), "k"),
            (h.MaxRegister("int"), "k"),
            (h.MinRegister("float"), "x"),
            (h.MaxRegister("str"), "user"),
            (h.TopK(rng.randint(1, 3), largest=rng.random() < 0.7), rng.choice(["k", "x", ("n", "user"), ("k", "n")])),
            (h.HyperLogLog(rng.randint(4, 7)), rng.choice(["user", "k", "mixed"])),
            (h.GSet(), rng.choice(["user", "k"])),
            (h.TwoPhaseSet(), ("user", "gone")),
            (h.ORSet(), ("k", "gone")),
            (h.LWWRegister(), rng.choice(["user", "mixed", ("user", "k")])),
            (h.MVRegister(), rng.choice(["user", "mixed"])),
            (h.ParetoFront(), ("n", "k")),
            (h.Histogram([-1.0, 0.0, 1.5]), rng.choice(["x", "k"])),
            (h.Quantiles(0.05), rng.choice(["x", "k"])),
        ]
    )


def _flattens(element: Element) -> bool:
    return isinstance(element, tuple)


# --- from a description to a program ----------------------------------------------------------------------------------


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


def _process(self, events):
    _handle_batch(self, events, _places(self, events))
    if self.spec.nested is not None:
        self.inner.process(events.where(pl.col("n") > 0))


async def _process_awaiting(self, events):
    spec, places = self.spec, _places(self, events)
    _handle_batch(self, events, places)
    if spec.awaits is not None:
        for window, run in events.by_window(getattr(self, spec.awaits.handle)):
            told = text(await getattr(self, spec.awaits.handle).completed(_awaited(self, window.start)))
            for handle in _fed(spec, run.stream, "even awaits"):
                if _number(told) % 2 == 0:
                    _insert(self, handle, run, run.ts)
            if "process" in spec.outputs:
                self.output(run.select("user", told=pl.lit(told)), f"{spec.prefix}told")
    if spec.nested is not None:
        await self.inner.process(events.where(pl.col("n") > 0))


def _handle_batch(self, events, places):
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
        told = [_remember(self, user) for user in events["user"].to_list()]
        self.output(events.select("k", recent=pl.Series(told, dtype=pl.String)), f"{spec.prefix}recent")


def _places(self, events):
    places = self.seen.value + np.arange(len(events))
    self.seen.value += len(events)
    return places


def _hand_before(self, events):
    """The clock as it was moved by hand, before each row."""
    jumps = np.where((events["k"] == 3).fill_null(False).to_numpy(), events.ts.micros + micros(JUMP), BEGINNING)
    reached = np.maximum.accumulate(np.concatenate(([self.hand.value], jumps)))
    self.hand.value = int(reached[-1])
    return reached[:-1]


def _chosen(rows, events, places):
    if rows == "positive":
        return (events["k"] > 0).fill_null(False).to_numpy()
    if rows == "third":
        return places % 3 == 0
    if rows == "even awaits" or (rows == "stream a" and events.stream != "a"):
        return None
    return np.ones(len(events), dtype=np.bool_)


def _each(self, event):
    _handle_row(self, event)
    if self.spec.nested is not None and (event["n"] or 0) > 0:
        self.inner.each(event)


async def _each_awaiting(self, event):
    spec = self.spec
    _handle_row(self, event)
    if spec.awaits is not None:
        told = text(await getattr(self, spec.awaits.handle).completed(_awaited(self, event.ts)))
        for handle in _fed(spec, event.stream, "even awaits"):
            if _number(told) % 2 == 0:
                _insert(self, handle, event, event.ts)
        if "process" in spec.outputs:
            self.output({"ts": event.ts, "told": told}, f"{spec.prefix}told")
    if spec.nested is not None and (event["n"] or 0) > 0:
        await self.inner.each(event)


def _handle_row(self, event):
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


def _remember(self, user):
    """The last three users and how often they came: a dict, changed in place, whose order is seen."""
    recent = self.recent.value
    recent[user] = recent.pop(user, 0) + 1
    if len(recent) > 3:
        del recent[next(iter(recent))]
    return str(recent)


def _fed(spec, stream, rows):
    """The handles of stage 0 that are fed with such rows."""
    return [handle for handle in spec.handles if handle.stage == 0 and handle.rows == rows]


def _insert(self, handle, row, ts):
    key = {} if handle.key is None else {"key": _column(row, handle.key)}
    getattr(self, handle.name).insert(_element(handle.element, row), ts, **key)


def _element(element, row):
    """An element of a batch, or of one row."""
    if isinstance(element, tuple):
        return tuple(_element(part, row) for part in element)
    if isinstance(element, dict):
        return {name: _element(part, row) for name, part in element.items()}
    return _column(row, element) if isinstance(element, str) else element


def _column(row, name):
    if name == "gone":
        return None if row["k"] is None else row["k"] > 1
    if name == "mixed":  # one by one, values of different types meet
        return row["k"] if isinstance(row, h.Event) and row["n"] == 1 else row["x"]
    return row[name]


def _awaited(self, before):
    """The newest window of the awaited handle that surely was sealed by this partition at an instant."""
    awaits = self.spec.awaits
    window = getattr(self, awaits.handle).window
    end = window.boundary(before - awaits.lag_us)
    return Window(end - window.size_us, end)


# --- completed windows ------------------------------------------------------------------------------------------------


def _on_window(callback):
    def on_window(self, window):
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


def _read(self, callback, window):
    """All that may be read: its own handles, and others' windows that ended by then and are still kept."""
    read = {}
    for handle in self.spec.handles:
        if handle.stage > callback.stage or (not handle.shared and self.emit == "once"):
            continue
        bound = getattr(self, handle.name)
        if handle.name in callback.handles:
            read[handle.name] = text(bound[window], share=callback.share)
        if isinstance(handle.window, FixedSpec):
            end = handle.window.boundary(window.end)
            newest = Window(end - handle.window.size_us, end)
            for name, other in [("newest", newest), ("before", handle.window.before(newest))]:
                if other.end >= window.end - bound.keep_us:
                    read[f"{name}_{handle.name}"] = text(bound[other], share=callback.share)
    return read


def _feed(self, handle, window, told):
    """Inserts what a window told into the next stage, at the window itself or later."""
    rows = [_row_of(_number(f"{told} {number}")) for number in range(3 if handle.several else 1)]
    given = {name: pl.Series([row[name] for row in rows]) if handle.several else rows[0][name] for name in rows[0]}
    ts = window if handle.ahead is None else window.end + micros(handle.ahead, zero_allowed=True)
    _insert(self, handle, given, ts)


def _row_of(number):
    return {"user": "abcd"[number % 4], "k": number % 7 - 3, "n": number % 5, "x": number % 1000 / 10}


def _number(told):
    return zlib.crc32(told.encode())


def text(value: object, share: bool = False) -> str:
    """Any value of an aggregate as canonical text."""
    return repr(_plain(value.share() if share and isinstance(value, h.Keyed) else value))


def _plain(value):
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
