"""Random jobs: frozen descriptions of programs that nobody would write by hand, drawn from a seed, and rows for them.

A description says which handles there are, what feeds them, which windows are read where, and what is emitted. Every
program is deterministic and batch-blind by construction, and awaits only what it may; so whatever differs between two
runs of one is a bug of the runtime, or of the oracle. `random_programs.py` makes programs of descriptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import holons as h
from holons.clock import Random, seeded
from holons.engines.simulator.workloads import Partition, partition

Element: TypeAlias = Any
"""A column's name, a constant, or a tuple or dict of these."""
WindowKind: TypeAlias = Any
"""A specification of windows, of whatever kind."""


@dataclass(frozen=True)
class HandleSpec:
    """One windowed handle, and what is inserted into it."""

    name: str
    aggregate: h.Aggregate
    element: Element
    window: WindowKind
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
    """Which clock it follows; a Local belongs to one."""
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


# --- from a seed to a description -------------------------------------------------------------------------------------

_TUMBLING: Final = ["1s", "700ms", "2s", "5s"]
_SLIDING: Final = [("3s", "2s"), ("2500ms", "1s"), ("1s", "300ms"), ("4s", "1s"), ("2s", "2s"), ("3s", "1400ms")]
_SESSIONS: Final = ["1s", "2s", "700ms", "3us"]
_LANES: Final = 10
"""From here on numbers of stages are those of handles that count rows: each has a clock of its own."""


def row(rng: Random) -> dict[str, Any]:
    """Draws a row of every stream: a name, an integer, a count and a wild float; now and then one of them is null."""
    broken = rng.random() < 0.12  # not so for `Random(0)`, from which the workload learns the types
    values = {
        "user": rng.choice(["ann", "bob", "cem", "δ", ""]),
        "k": rng.randint(-3, 4),
        "n": rng.choice([0, 1, 1, 2, 900]),
        "x": rng.choice([0.1, 0.2, 0.3, -0.0, 1e16, -1e16, 1e-9, 2.5, float("nan"), float("inf")]),
    }
    return {**values, rng.choice(list(values)): None} if broken else values


def workload(spec: JobSpec, seed: int) -> dict[str, list[Partition]]:
    """One to three partitions for each stream: disorder, late rows, null times and values, marks, years of silence."""
    rng = seeded(f"rows {seed}")
    span_s = rng.choice([3, 8, 20])
    return {
        stream: [
            partition(rng, row, span_s=span_s, rows=rng.choice([4, 20]), disorder_us=disorder_us)
            for _ in range(rng.randint(1, 3))
        ]
        for stream, disorder_us in spec.streams
    }


def job_spec(seed: int) -> JobSpec:
    """Returns the job of a seed; `random_programs.job_of` makes a real one of it."""
    rng = seeded(f"program {seed}")
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


def _program_spec(rng: Random, prefix: str, entry: str) -> ProgramSpec:
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


def with_counts(spec: JobSpec, seed: int) -> JobSpec:
    """Returns the job with some handles that count rows besides, each read in its own `on_window`."""
    rng, program = seeded(f"counts {seed}"), spec.program
    if program.nested is not None and rng.random() < 0.5:
        program = replace(program, nested=_with_counts(rng, program.nested))
    return replace(spec, program=_with_counts(rng, program))


def _with_counts(rng: Random, spec: ProgramSpec) -> ProgramSpec:
    handles: list[HandleSpec] = []
    callbacks: list[CallbackSpec] = []
    for number in range(rng.choice([1, 1, 2, 3])):
        aggregate, element = _aggregate(rng, depth=2)
        size = rng.choice([1, 2, 3, 5, 8, 13, 30])
        handle = HandleSpec(
            name=f"{spec.prefix}c{number}",
            aggregate=aggregate,
            element=element,
            window=h.CountWindow(
                size, every=rng.choice([size, size, rng.randint(1, size)]), partial=rng.random() < 0.4
            ),
            shared=rng.random() < 0.75,
            rows=rng.choice(["all", "all", "positive", "third", "stream a", "even awaits"]),
            ahead=rng.choice([None, None, None, "1500ms", "0s"]),
        )
        handles.append(handle)
        callbacks.append(
            CallbackSpec(
                name=f"on_{handle.name}",
                handles=(handle.name,),
                stage=_LANES + number,
                gives=rng.choice(["rows", "rows", "frame", "two rows"]),
                share=rng.random() < 0.3,
                counts_itself=rng.random() < 0.5,
            )
        )
    return replace(spec, handles=(*spec.handles, *handles), callbacks=(*spec.callbacks, *callbacks))


def _window(rng: Random) -> WindowKind:
    kind = rng.choice(["tumbling", "tumbling", "sliding", "session"])
    if kind == "tumbling":
        return h.Tumbling(rng.choice(_TUMBLING))
    return h.Sliding(*rng.choice(_SLIDING)) if kind == "sliding" else h.Session(rng.choice(_SESSIONS))


def _handle_spec(rng: Random, name: str, window: WindowKind, stage: int) -> HandleSpec:
    aggregate, element = _aggregate(rng, depth=2)
    session = window.keyed
    tumbles = window.known_ahead and window.size_us == window.every_us
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
    prefix: str, handles: list[HandleSpec], known: list[CallbackSpec], rng: Random
) -> list[CallbackSpec]:
    """One for each kind of windows; those already there keep their name and what they do."""
    kinds: dict[object, list[HandleSpec]] = {}
    for handle in handles:
        apart = handle.name if handle.window.keyed else None
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


def _with_await(rng: Random, spec: ProgramSpec, others: tuple[HandleSpec, ...], lag_us: int) -> ProgramSpec:
    """Awaits some shared handle, as late as it may be awaited; which keeps its windows just as long."""
    candidates = [handle for handle in spec.handles if handle.shared and handle.window.known_ahead]
    if not candidates:
        return spec
    chosen = rng.choice(candidates)
    if chosen.stage:  # each stage before may be behind by a step of its windows, and by a pane of its sessions
        lag_us += 4 * sum(_step_us(handle.window) for handle in others)
    keep_us = lag_us + chosen.window.size_us + chosen.window.every_us
    handles = tuple(replace(handle, keep_us=keep_us) if handle is chosen else handle for handle in spec.handles)
    return replace(spec, handles=handles, awaits=Awaits(chosen.name, lag_us))


def _step_us(window: WindowKind) -> int:
    return window.every_us if window.known_ahead else window.gap_us


def _aggregate(rng: Random, depth: int) -> tuple[h.Aggregate, Element]:
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
