"""A job: a program bound to its input streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import cloudpickle

from holons.errors import BadProgram, UnpicklableProgram
from holons.program.digest import digest_of
from holons.program.layout import Layout, layout_of
from holons.program.program import Program
from holons.windows import Duration, micros


@dataclass(frozen=True)
class Input:
    """An input stream: its name, its time column, and how far rows may be out of order."""

    stream: str
    time: str = "ts"
    disorder: Duration = "0s"

    @property
    def disorder_us(self) -> int:
        return micros(self.disorder, zero_allowed=True)


@dataclass(frozen=True)
class Job:
    """A program and its inputs. A frozen, picklable value; nothing runs yet."""

    program: Program
    inputs: tuple[Input, ...]
    name: str = ""
    layout: Layout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.inputs:
            raise BadProgram("a job needs an input stream", hint='h.job(MyProgram(), "bids")')
        if len({given.stream for given in self.inputs}) < len(self.inputs):
            raise BadProgram("one stream is listed twice", hint="name each input stream once")
        for given in self.inputs:
            micros(given.disorder, zero_allowed=True)
        object.__setattr__(self, "layout", layout_of(self.program))
        object.__setattr__(self, "name", self.name or type(self.program).__name__)
        check_picklable(self.program)

    @cached_property
    def digest(self) -> str:
        """What this job does, as a short text: other code, other settings or other inputs give another one."""
        return digest_of(self.program, self.inputs)


def job(
    program: Program,
    *inputs: str | Input,
    time: str = "ts",
    disorder: Duration = "0s",
    name: str = "",
) -> Job:
    """Binds a program to streams: `h.job(BidShare(), "bids", time="date_time", disorder="2s")`.

    `time` and `disorder` hold for the streams given by name; pass `h.Input(...)` where they differ.
    """
    bound = tuple(given if isinstance(given, Input) else Input(given, time, disorder) for given in inputs)
    return Job(program, bound, name)


def check_picklable(program: Program) -> None:
    """Raises `UnpicklableProgram`, naming the attribute, unless the program can travel to other processes."""
    try:
        cloudpickle.dumps(program)
    except Exception as error:
        guilty = [name for name, value in vars(program).items() if not _travels(value)]
        where = f" because of self.{', self.'.join(guilty)}" if guilty else ""
        raise UnpicklableProgram(
            f"{type(program).__name__} cannot be sent to other processes{where}: {error}",
            hint="open files, connections and locks inside process, or pass their settings instead",
        ) from error


def _travels(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling may raise anything
        return False
    return True
