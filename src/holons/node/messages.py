"""The messages between nodes, besides those of the sync stream. Plain data; nothing is ever unpickled.

The tag of a message names its kind and its version: a change of its fields is a new version. A reader that does not know it
raises `CodecError`, and does not guess.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from holons.errors import DescribedError
from holons.program import Cut
from holons.visible import visible
from holons.windows import BEGINNING
from holons.wire import decoder


class Running(msgspec.Struct, frozen=True, array_like=True):
    """One partition that a node runs now, and how far it is."""

    job: str
    partition: int
    slot: int
    epoch: int
    offset: int
    calls: int
    """How many windows it has emitted."""
    idle: bool
    parked: bool
    """Whether it waits for a window."""
    stored_to: int
    """A watermark that its durable process records have passed."""
    emitted_to: tuple[int, ...]
    """What its durable window records have emitted, by clock: that of each stage, then of each lane."""
    lag: int = 0
    """How many rows of its log it has not read yet."""
    watermark: int = BEGINNING
    touched: bool = True
    """Whether the node is about to work on it: if it dies now, this may be why."""
    finished: bool = False
    """Whether its input has ended, and everything of it is out."""
    held: bool = False
    """Whether it waits for slower partitions before it reads on."""
    ordinals: dict[str, int] = {}
    """Once it is finished: by output channel, how many rows it has emitted."""
    counted_to: tuple[int, ...] = ()
    """By lane, a rank that its durable process records have passed."""
    appended: int = 0
    """When its newest row was appended, in microseconds since 1970; 0 if it had none."""
    event_time: int = BEGINNING
    """What event time is by now, by its live rows and the time that has passed since; `BEGINNING` if no row was live."""


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="heartbeat/5"):
    """A sign of life, from the node's main loop itself."""

    node: str
    sequence: int
    running: tuple[Running, ...] = ()
    leaving: bool = False
    jobs: int = 0
    """How many jobs it has the code of."""
    finished: bool = False
    """Whether all of them have ended, and everything is out."""
    pid: int = 0
    """Its process, for people who look for it."""
    trouble: str = ""
    """What does not answer it now, for people."""


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim/1"):
    """A node takes a slot of a partition. Claims are merged by maximum of (epoch, node)."""

    job: str
    partition: int
    slot: int
    epoch: int
    node: str


class Stopped(msgspec.Struct, frozen=True, array_like=True, tag="stopped/1"):
    """A version of a job has failed, or was cancelled, or gave way to a newer one, and stops everywhere."""

    job: str
    kind: str
    reason: str

    @staticmethod
    def by(job: str, error: DescribedError) -> Stopped:
        """What an error has stopped."""
        return Stopped(job, type(error).__name__, visible(_reason(error)))  # else it might not be written

    @property
    def failed(self) -> bool:
        """Whether nobody wanted this."""
        return self.kind not in ("Cancelled", "Upgraded")


def _reason(error: DescribedError) -> str:
    """What happened, where in the user's code, and what to do."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    place = f" ({_place(cause)})" if cause.__traceback__ is not None else ""
    cause_text = f"{type(cause).__name__}: {cause}"
    story, hint, rest = str(error).partition("\n  hint: ")
    return f"{story}{'' if cause_text in story else f': {cause_text}'}{place}{hint}{rest}"


def _place(cause: BaseException) -> str:
    """The line that raised; of a file that Python cannot read, the line that is wrong."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{cause.filename}, line {cause.lineno}: {(cause.text or '').strip()}"
    frame = traceback.extract_tb(cause.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}: {frame.line}"


class Submitted(msgspec.Struct, frozen=True, array_like=True, tag="submitted/1"):
    """A job, or a new version of one, is to run from now on. The version that it takes over from, if any, ends with it."""

    name: str
    generation: int
    digest: str
    """What it does: other code is another version."""
    writer: str
    inputs: tuple[tuple[str, int], ...]
    """Its input streams, and how many partitions each has."""
    after: str = ""
    """The version that it takes over from, if any."""
    cuts: tuple[Cut, ...] = ()
    """Where that one leaves off, by partition."""

    @property
    def id(self) -> str:
        """The name under which everything durable of this version is kept."""
        place = hashlib.blake2b(f"{self.writer}/{self.digest}".encode(), digest_size=4).hexdigest()
        return f"{self.name}-{self.generation}-{place}"

    @property
    def partitions(self) -> int:
        """How many partitions the job has."""
        return sum(partitions for _, partitions in self.inputs)

    def cut(self, partition: int) -> Cut:
        """Where a partition begins to emit."""
        return self.cuts[partition] if partition < len(self.cuts) else Cut()


class Trimmed(msgspec.Struct, frozen=True, array_like=True, tag="trimmed/1"):
    """Nobody needs what an input stream has below these offsets: from now on no job begins before them."""

    stream: str
    starts: tuple[int, ...]
    """By partition."""
    at_us: int
    """When this was decided, by the clock of whoever did."""


class Summary(msgspec.Struct, frozen=True, array_like=True, tag="summary/1"):
    """All that is still of use of the decisions before this one, which go."""

    versions: tuple[Submitted, ...]
    stopped: tuple[Stopped, ...]
    trimmed: tuple[Trimmed, ...]


Decision: TypeAlias = Submitted | Stopped | Trimmed | Summary

_NEEDLESS: Final = ": end all nodes, remove the stream shared/{}, and run again"
decode_heartbeat: Callable[[bytes], Heartbeat] = decoder(
    Heartbeat, "a heartbeat", "the heartbeat stream", remedy=_NEEDLESS.format("heartbeats")
)
decode_claim: Callable[[bytes], Claim] = decoder(
    Claim, "a claim", "the control log", remedy=_NEEDLESS.format("control")
)
decode_decision: Callable[[bytes], Decision] = decoder(
    Submitted | Stopped | Trimmed | Summary, "a decision about a job", "the journal of jobs"
)
