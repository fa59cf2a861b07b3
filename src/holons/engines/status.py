"""The status of a run: one frozen value, which terminals, notebooks and JSON show each in their own way.

Nodes say in heartbeats how far they are; `Watcher` makes a `Status` of that, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from holons.windows import BEGINNING, ENDING, instant_text

State: TypeAlias = Literal["starting", "running", "finished", "stopped", "failed"]
"""A run is starting until a node has been heard."""
Activity: TypeAlias = Literal["reading", "waiting", "held", "idle", "finished"]
"""What a partition does: it reads rows; it waits for a window that others complete; it waits for slower partitions to catch
up; its input is idle; or all of its rows are read and all of its windows emitted."""


NO_WATERMARK: Final = "-"
"""What is shown for a watermark before the first row."""
_RANGES_MAX: Final = 8
"""So many ranges of partitions are named in a row."""


@dataclass(frozen=True)
class PartitionStatus:
    """How far one partition of a job is, by what its most advanced owner said last."""

    partition: int
    owners: tuple[str, ...]
    """The names of the nodes that run it now."""
    activity: Activity
    rows_read: int
    lag: int
    """How many rows of its log are not read yet."""
    watermark: int
    unmoved_s: float = 0.0
    """For how long its watermark has not moved."""


@dataclass(frozen=True)
class NodeStatus:
    """A node that was heard lately, and what it runs of a job."""

    name: str
    process: int = 0
    partitions: tuple[int, ...] = ()
    rows_read: int = 0
    rows_per_s: float = 0.0
    """Of all partitions that it runs; what several nodes run counts for each of them."""
    lag: int = 0
    watermark: int | None = None
    """The smallest watermark of its partitions."""

    @property
    def label(self) -> str:
        """Its name for people: without what makes it another one in each run."""
        base, _, incarnation = self.name.partition("#")
        attempt = incarnation.partition(".")[2]
        return f"{base}.{attempt}" if attempt else base


@dataclass(frozen=True)
class WaitingFor:
    """What a run waits for before it can emit its next windows."""

    reason: str
    """A clause for people: `partition 2 on node-1 has 5,000 rows to read`."""
    partitions: tuple[int, ...] = ()
    """The partitions that hold the others up."""
    since_s: float = 0.0
    """For how long that has not changed: no row was read there, and no watermark moved."""

    def __str__(self) -> str:
        return f"{self.reason}, for {self.since_s:,.1f} s"


@dataclass(frozen=True, repr=False)
class Status:
    """How far a run is, at one moment: what its nodes said last."""

    job: str = ""
    state: State = "starting"
    seconds: float = 0.0
    nodes: tuple[NodeStatus, ...] = ()
    """The nodes that were heard lately."""
    partitions: tuple[PartitionStatus, ...] = ()
    """The partitions of which anybody was ever heard."""
    rows_read: int = 0
    rows_before: int = 0
    """So many of them had been read before this run began: an earlier run did that."""
    rows_per_s: float = 0.0
    rows_waiting: int = 0
    windows: int = 0
    watermark: int | None = None
    """The smallest watermark of all partitions."""
    deaths: int = 0
    """How many nodes have died so far; each was replaced."""
    waiting_for: WaitingFor | None = None
    """What holds the run up; None once it is over."""

    @property
    def finished(self) -> bool:
        """Whether all inputs have ended and everything is emitted."""
        return self.state == "finished"

    @property
    def processes(self) -> dict[str, int]:
        """The process of each node, by its name."""
        return {node.name: node.process for node in self.nodes}

    def figures(self) -> dict[str, str]:
        """What people want to know first, by name."""
        figures = {
            "seconds": f"{self.seconds:,.1f}",
            "rows": f"{self.rows_read:,}",
            "rows a second": f"{self.rows_per_s:,.0f}",
            "rows waiting": f"{self.rows_waiting:,}",
            "windows": f"{self.windows:,}",
            "watermark": watermark_text(self.watermark),
        }
        return figures | ({"died and replaced": f"{self.deaths:,}"} if self.deaths else {})

    def record(self) -> dict[str, Any]:
        """All of it as plain values, for JSON. Watermarks are microseconds since 1970, or null before the first row."""
        return asdict(self) | {"finished": self.finished}

    def __repr__(self) -> str:
        figures = ", ".join(f"{value} {name}" for name, value in self.figures().items() if name != "watermark")
        nodes = "".join(f"; {node.label} runs {partitions_text(node.partitions)}" for node in self.nodes)
        waiting = f"; waits: {self.waiting_for}" if self.waiting_for else ""
        return f"<{self.job} {self.state}: {figures}, watermark {watermark_text(self.watermark)}{nodes}{waiting}>"

    def _repr_html_(self) -> str:
        from holons.engines import html

        return html.status(self)


def partitions_text(partitions: Sequence[int]) -> str:
    """Returns partitions for people: in ranges, and not too many.

    >>> partitions_text([0, 1, 2, 3, 7]), partitions_text([]), partitions_text(range(1, 99, 2))
    ('0 to 3, 7', 'nothing', '1, 3, 5, 7, 9, 11, 13, 15, …')
    """
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and partition == ranges[-1][-1] + 1:
            ranges[-1].append(partition)
        else:
            ranges.append([partition])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in ranges]
    return ", ".join([*texts[:_RANGES_MAX], *["…"] * (len(texts) > _RANGES_MAX)]) or "nothing"


def watermark_text(watermark: int | None) -> str:
    """A watermark for people."""
    if watermark is None or watermark <= BEGINNING:
        return NO_WATERMARK
    return "ended" if watermark >= ENDING else instant_text(watermark)
