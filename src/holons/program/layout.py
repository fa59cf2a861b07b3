"""The layout of a program: its handles in order, its stages, and which method is called for which windows."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from holons.errors import BadProgram
from holons.names import check_name
from holons.program.handles import Declared, Local, Nested, Scope, WindowedHandle
from holons.program.program import Program, check_names
from holons.wcrdt import Handle
from holons.windows import BEGINNING, ENDING, WindowSpec


@dataclass(frozen=True)
class Callback:
    """A method that is called for completed windows: for which windows, and where its output goes."""

    channel: str
    path: tuple[str, ...]
    method: str
    stage: int
    window: WindowSpec
    handles: tuple[int, ...]
    """The handles with these windows. The method is called for a window if one of them has rows in it."""
    once: bool


@dataclass(frozen=True)
class Layout:
    """What the runtime needs to know about a program. It is derived from the program alone, and the same everywhere."""

    program: Program
    handles: tuple[Handle, ...]
    locals: dict[str, Local[Any]]
    callbacks: tuple[Callback, ...]
    asynchronous: bool
    row_by_row: bool

    @cached_property
    def stages(self) -> int:
        return stages_of(self.handles)

    @cached_property
    def lanes(self) -> tuple[int, ...]:
        """The handles that count rows. Each is a lane: a clock of its own, on the axis of ranks, beside the stages."""
        return tuple(index for index, handle in enumerate(self.handles) if handle.window.counted)

    @property
    def clocks(self) -> int:
        """How many clocks there are: those of the stages, then those of the lanes."""
        return self.stages + len(self.lanes)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of all channels of the program."""
        return self.program._channel_names() or tuple(callback.channel for callback in self.callbacks)

    def channels_of(self, callback: Callback) -> tuple[str, ...]:
        """The channels into which a callback emits."""
        channels = dict(_programs(self.program))[callback.path]._channels_of(callback.method)
        return (callback.channel,) if channels is None else channels

    @property
    def lane_channels(self) -> list[tuple[str, ...]]:
        """By lane, the channels of its windows."""
        callbacks = {callback.handles[0]: callback for callback in self.callbacks}
        return [self.channels_of(callbacks[index]) if index in callbacks else () for index in self.lanes]

    @property
    def writers(self) -> dict[str, int]:
        """By channel, the callback to which it belongs."""
        return {
            channel: place for place, callback in enumerate(self.callbacks) for channel in self.channels_of(callback)
        }

    @cached_property
    def indices(self) -> dict[str, int]:
        """Each handle's index by its name."""
        return {handle.name: index for index, handle in enumerate(self.handles)}

    def stage_handles(self, stage: int) -> list[int]:
        """Returns the handles into which a stage inserts."""
        return [index for index, handle in enumerate(self.handles) if handle.stage == stage]

    def specs(self, stage: int) -> tuple[WindowSpec, ...]:
        """Returns the distinct window specifications of a stage."""
        return tuple(dict.fromkeys(self.handles[index].window for index in self.stage_handles(stage)))

    def boundary(self, stage: int, watermark: int) -> int:
        """Returns the last instant up to a watermark at which a window of a stage may end: the stage seals up to it."""
        if watermark >= ENDING or watermark <= BEGINNING:
            return watermark
        return max((spec.boundary(watermark) for spec in self.specs(stage)), default=BEGINNING)

    def reach(self, stage: int, watermark: int) -> int:
        """Returns how far a stage seals once all partitions have reached a watermark of stage 0."""
        reached = self.boundary(0, watermark)
        for later in range(1, stage + 1):
            reached = self.boundary(later, self.clock_of(later, reached))
        return reached

    def clock_of(self, stage: int, watermark: int) -> int:
        """Returns the clock of a later stage once the stage before has reached a global watermark and emitted all it can."""
        return self.boundary(stage - 1, self.emission_limit(stage - 1, watermark))

    def emission_limit(self, stage: int, watermark: int) -> int:
        """Returns how far windows of all kinds in a stage can be emitted at a global watermark."""
        limits = (callback.window.emission_limit(watermark) for callback in self.callbacks if callback.stage == stage)
        return min(limits, default=watermark)

    def floor_for(self, stage: int, end: int) -> int:
        """Returns how far the next stage may be sealed before a window with this end is emitted: no insert may be below."""
        return self.boundary(stage, end - 1)


def layout_of(program: Program) -> Layout:
    """Lays out a program; raises `BadProgram` if parts of it do not fit together."""
    if not isinstance(program, Program):
        raise BadProgram(f"{program!r} is not a program", hint="pass an instance: class Mine(h.Program), then Mine()")
    handles: list[Handle] = []
    parts = list(_programs(program))
    locals_: dict[str, Local[Any]] = {}
    callbacks: list[Callback] = []
    for path, nested in parts:
        check_names(nested)
        prefix = ".".join((*path, ""))
        for name, declared in _declared(nested):
            if isinstance(declared, WindowedHandle):
                handles.append(_handle(check_name("handle", prefix + name), declared))
            elif isinstance(declared, Local):
                locals_[check_name("handle", prefix + name)] = declared
    _number_lanes(handles)
    for path, nested in parts:
        callbacks.extend(_callbacks(path, nested, handles))
    if not handles and not _has(program, "process") and not _has(program, "each"):
        raise BadProgram(
            f"{type(program).__name__} does nothing", hint="write process(self, events), or each(self, event)"
        )
    row_by_row = not _has(program, "process")
    if row_by_row and not _has(program, "each"):
        raise BadProgram(
            f"{type(program).__name__} has neither process nor each", hint="write `def process(self, events)`"
        )
    entry = type(program).each if row_by_row else type(program).process
    if inspect.isgeneratorfunction(entry) or inspect.isasyncgenfunction(entry):
        raise BadProgram(f"{entry.__name__} yields", hint="write rows with self.output(...); only on_window yields")
    _check_stages(program, handles, callbacks)
    asynchronous = inspect.iscoroutinefunction(entry)
    if handles and not callbacks and not (asynchronous and any(handle.window.awaitable for handle in handles)):
        awaits = ", or `async def process` and await handle.completed(window)" if handles[0].window.awaitable else ""
        raise BadProgram(f"nothing ever reads {handles[0].name}", hint=f"write on_window(self, window){awaits}")
    if not row_by_row and _has(program, "each"):
        raise BadProgram(f"{type(program).__name__} has both process and each", hint="keep one of them")
    return Layout(program, tuple(handles), locals_, tuple(callbacks), asynchronous, row_by_row)


def bind(program: Program, scope: Scope) -> Program:
    """Returns a copy of a program whose handles act on a scope. The program itself stays a plain value."""
    return _bind(program, scope, ())


def _bind(program: Program, scope: Scope, path: tuple[str, ...]) -> Program:
    bound = copy.copy(program)
    prefix = ".".join((*path, ""))
    for name, declared in _declared(program):
        if isinstance(declared, Nested):
            inner: object = _bind(declared.program, scope, (*path, name))
        else:
            inner = declared.bound(scope, prefix + name)
        object.__setattr__(bound, name, inner)
    object.__setattr__(bound, "_scope", scope)
    return bound


def at_path(program: Program, path: tuple[str, ...]) -> Program:
    """Returns the nested program at a path of a bound one."""
    for name in path:
        program = getattr(program, name)
    return program


def _programs(program: Program, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Program]]:
    yield path, program
    for name, declared in _declared(program):
        if isinstance(declared, Nested):
            yield from _programs(declared.program, (*path, name))


def _declared(program: Program) -> list[tuple[str, Declared | Nested[Any]]]:
    """Returns all declarations of a program, class attributes first, in the order in which they were written."""
    attributes: dict[str, object] = {}
    for kind in reversed(type(program).__mro__):
        attributes.update(vars(kind))
    attributes.update(vars(program))
    return [(name, value) for name, value in attributes.items() if isinstance(value, Declared | Nested)]


def _handle(name: str, declared: WindowedHandle[Any]) -> Handle:
    return Handle(
        name=name,
        aggregate=declared.crdt,
        window=declared.window,
        stage=declared.stage,
        shared=declared.shared,
        accumulate=declared.accumulate,
        keep_us=declared.keep_us,
        own_stage=declared.own_stage or declared.window.counted,
    )


def stages_of(handles: Iterable[Handle]) -> int:
    """Returns how many stages there are; those who count rows are in none."""
    return 1 + max((handle.stage for handle in handles if not handle.window.counted), default=0)


def _number_lanes(handles: list[Handle]) -> None:
    """Gives each handle that counts rows a clock of its own, behind those of the stages."""
    clock = stages_of(handles)
    for index, handle in enumerate(handles):
        if handle.window.counted:
            handles[index] = replace(handle, stage=clock)
            clock += 1


def _callbacks(path: tuple[str, ...], program: Program, handles: list[Handle]) -> list[Callback]:
    prefix = ".".join((*path, ""))
    own = [(index, handle) for index, handle in enumerate(handles) if handle.name.rpartition(".")[0] == ".".join(path)]
    targets = _kinds(own)
    claimed: dict[tuple[object, ...], str] = {}
    named = {prefix + name: declared for name, declared in _declared(program)}
    for name, declared in program._window_methods().items():
        match = next(
            (kind for kind, members in targets.items() if any(named[h.name] is declared for _, h in members)), None
        )
        if match is None:
            raise BadProgram(f"{name} is marked for a handle that {type(program).__name__} does not have")
        if match in claimed:
            raise BadProgram(f"{name} and {claimed[match]} answer the same windows", hint="keep one of them")
        claimed[match] = name
    if _has(program, "on_window") and "on_window" not in claimed.values():
        free = [kind for kind in targets if kind not in claimed]
        if len(free) != 1:
            what = f"could mean {len(free)} kinds of windows" if free else "has no windows left to answer"
            raise BadProgram(
                f"{type(program).__name__}.on_window {what}", hint="mark one method for each kind: @h.on_window(handle)"
            )
        claimed[free[0]] = "on_window"
    for name in claimed.values():
        method = getattr(type(program), name, None)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise BadProgram(f"{name} is async", hint="on_window is plain: its windows are completed, nothing to await")
    if program.emit not in ("each", "once"):
        raise BadProgram(f"emit = {program.emit!r} is unknown", hint='emit = "each" or emit = "once"')
    return [
        Callback(
            channel=check_name("channel", prefix + claimed[kind]),
            path=path,
            method=claimed[kind],
            stage=members[0][1].stage,
            window=members[0][1].window,
            handles=tuple(index for index, _ in members),
            once=program.emit == "once",
        )
        for kind, members in targets.items()
        if kind in claimed
    ]


def _kinds(own: list[tuple[int, Handle]]) -> dict[tuple[object, ...], list[tuple[int, Handle]]]:
    """Groups handles that share their windows: of one stage and specification, unless rows make or cut those of each."""
    kinds: dict[tuple[object, ...], list[tuple[int, Handle]]] = {}
    for index, handle in own:
        apart = None if handle.window.known_ahead and not handle.window.counted else index
        kinds.setdefault((handle.stage, handle.window, apart), []).append((index, handle))
    return kinds


def _has(program: Program, method: str) -> bool:
    return getattr(type(program), method, None) is not getattr(Program, method, None)


def _check_stages(program: Program, handles: list[Handle], callbacks: list[Callback]) -> None:
    for handle in handles:
        if handle.window.counted:
            continue
        if handle.stage and not any(callback.stage == handle.stage - 1 for callback in callbacks):
            raise BadProgram(
                f"{handle.name} is in stage {handle.stage}, but no callback of {type(program).__name__} feeds it",
                hint=f"write an on_window for a handle of stage {handle.stage - 1}",
            )
