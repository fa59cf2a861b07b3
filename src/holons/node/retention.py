"""Retention: drops what nobody needs any more of inputs and outputs that are not kept for ever.

An input loses rows that were appended longer ago than its rule says, but only below what is needed

- by every job that was submitted and has not stopped, whether it runs now or not: where its oldest durable record resumes,
- by every named consumer: where it says it is.

First it is decided, in the journal of jobs, that nobody begins below some offset; then it is done. So a job that is
submitted at the same moment either comes first, and everything that it needs stays, or begins where the decision says.
An owner that comes too late for its rows begins again from its newest records (`RowsTrimmed`), never behind a gap.

Of outputs rows go by age and by consumers. Their ends stay, so positions keep their meaning: what is put again below the
start changes nothing, and a job has finished all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from holons.errors import BadInput
from holons.node.jobs import Decisions, Jobs
from holons.node.messages import Submitted, Trimmed
from holons.node.ports import Ports
from holons.node.recovery import needed_from
from holons.streams import InputLog, WritableLog

_DECISIONS_IN_A_PERIOD = 64  # so often is an input trimmed while it keeps a row,
_DECIDE_EVERY_US_MIN = 1_000_000  # but not more often than this


def retain(ports: Ports, decisions: Decisions | None = None) -> None:
    """Trims all inputs and outputs as far as their rules say, and shortens the journal of jobs.

    Anybody may call it at any time, in any process, however many do, and die within it. It costs little where there are no
    rules.
    """
    inputs, outputs = ports.retention.inputs(), ports.retention.outputs()
    decisions = decisions or Decisions(ports.decisions)
    for stream, kept_us in sorted(inputs.items()):
        _retain_input(ports, decisions, stream, kept_us)
    for job, kept_us in sorted(outputs.items()):
        for version in decisions.jobs.versions.values():
            if version.name == job:
                _retain_outputs(ports, version, kept_us)
    decisions.summarise()


# --- inputs -----------------------------------------------------------------------------------------------------------


def _retain_input(ports: Ports, decisions: Decisions, stream: str, kept_us: int) -> None:
    try:
        log, now_us = ports.input(stream), ports.clock.utc_us()
    except BadInput:  # there is a rule already, and no stream yet
        return

    def choose(jobs: Jobs) -> Trimmed | None:
        last = jobs.trimmed.get(stream) or Trimmed(stream, (0,) * log.partitions, 0)
        if abs(now_us - last.at_us) < max(kept_us // _DECISIONS_IN_A_PERIOD, _DECIDE_EVERY_US_MIN):
            return None
        readers = jobs.readers(stream)
        wanted = [
            _needed(ports, readers, stream, log, partition, now_us - kept_us) for partition in range(log.partitions)
        ]
        starts = tuple(map(max, last.starts, wanted))
        return None if starts == last.starts else Trimmed(stream, starts, now_us)

    decisions.decide(choose)
    decided = decisions.jobs.trimmed.get(stream)
    if decided is not None:
        _trim(log, [min(start, _consumed(ports, stream, log, at)) for at, start in enumerate(decided.starts)])


def _needed(
    ports: Ports, readers: Sequence[tuple[Submitted, int]], stream: str, log: InputLog, partition: int, before_us: int
) -> int:
    """Returns below where a partition of an input is not needed by anybody."""
    needed = min(log.appended_before(partition, before_us), _consumed(ports, stream, log, partition))
    for version, first in readers:
        recovered = needed_from(ports.store, version.id, first + partition)
        needed = min(needed, version.cut(first + partition).begin if recovered is None else recovered)
    return needed


def _consumed(ports: Ports, stream: str, log: InputLog, partition: int) -> int:
    """Returns the first offset of a partition that some named consumer needs. Consumers do not see the marks of journals."""
    positions = ports.retention.consumed(stream).values()
    needed = [at[partition] if partition < len(at) else 0 for at in positions]
    own_offset = getattr(log, "own_offset", lambda _, offset: offset)
    return min((own_offset(partition, offset) for offset in needed), default=log.end(partition))


# --- outputs ----------------------------------------------------------------------------------------------------------


def _retain_outputs(ports: Ports, version: Submitted, kept_us: int) -> None:
    before_us = ports.clock.utc_us() - kept_us
    for channel, partitions in ports.channels(version.id).items():
        log = ports.output(version.id, channel, partitions)
        positions = ports.retention.consumed(channel, version.id).values()
        starts = []
        for partition in range(partitions):
            consumed = [at[partition] if partition < len(at) else 0 for at in positions]
            starts.append(min([log.appended_before(partition, before_us), *consumed]))
        _trim(log, starts)


def _trim(log: InputLog | WritableLog, starts: Sequence[int]) -> None:
    """Trims each partition; where nothing new is to go, what went before may be given back by now."""
    for partition, start in enumerate(starts):
        if start > log.start(partition) or partition == 0:
            log.trim(partition, max(start, log.start(partition)) if partition == 0 else start)
