"""The checkpoint records of one partition: what its process part and its window part resume from."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holons.program.delays import Delays
from holons.program.outputs import NOTHING_EMITTED, CountedCut, Cut, Emitted
from holons.wcrdt.records import ContributionsRecord, PanesRecord, RecordFormat, StitchedRecord, check_fits
from holons.windows import BEGINNING


class ProcessRecord(msgspec.Struct, frozen=True, array_like=True, tag="process/4"):
    """Where a process part resumes. Its states are its locals, its open panes, its sealed panes by handle, and its lanes."""

    offset: int
    watermark: int
    by_hand: int
    sealed_to: int
    ordinals: dict[str, int]
    """How many rows each channel has."""
    columns: dict[str, list[str]]
    forgotten_to: list[int]
    """By stage, how far a window record must have emitted that goes with this one."""
    contributions: ContributionsRecord
    panes: dict[int, PanesRecord]
    """By local handle."""
    appended: int
    """When the newest processed row was appended."""
    future: int
    """How many rows were dated too far after they were appended."""
    delays: Delays
    """How long after their own times live rows were appended."""


class WindowRecord(msgspec.Struct, frozen=True, array_like=True, tag="window/1"):
    """Where a window part resumes. Its states are its locals, and those of its open, sealed and stitched panes."""

    calls: int
    cursors: list[Emitted]
    """By clock (stages, then lanes), the last window that was emitted."""
    emitted_to: list[int]
    sealed_to: list[int]
    local_stages: dict[str, int]
    ordinals: dict[str, int]
    """How many rows each channel has."""
    inserted: list[int]
    """By stage, how many rows were inserted into it."""
    contributions: list[ContributionsRecord]
    """By stage, from 1 on."""
    panes: dict[int, PanesRecord]
    """By local handle."""
    stitched: dict[int, StitchedRecord]
    """By handle."""
    counted: list[tuple[str, ...]] = []
    """By lane, the channels of its windows."""
    writers: dict[str, int] = {}
    """By channel, the first callback that wrote to it."""


PROCESS = RecordFormat(ProcessRecord)
WINDOW = RecordFormat(WindowRecord)


class Records(NamedTuple):
    """A checkpoint: two records that grow independently (invariant: covering checkpoints). Join the newest of both."""

    process: bytes | None = None
    window: bytes | None = None


def cut_after(records: Records, before: Cut) -> Cut:
    """Returns where a run that has stored these records leaves off, and that was itself silent up to `before`."""
    offset, ordinals = before.offset, dict[str, int]()
    emitted, emitted_to = list(before.emitted), list(before.emitted_to)
    if records.process is not None:
        process = PROCESS.header(records.process)
        offset, ordinals = max(offset, process.offset), dict(process.ordinals)
    counted = dict(before.counted)
    if records.window is not None:
        window = WINDOW.header(records.window)
        stages = len(window.sealed_to)
        check_fits(min(len(window.cursors), len(window.emitted_to)) >= stages + len(window.counted))
        emitted = [max([last, *emitted[stage : stage + 1]]) for stage, last in enumerate(window.cursors[:stages])]
        limits = enumerate(window.emitted_to[:stages])
        emitted_to = [max([limit, *emitted_to[stage : stage + 1]]) for stage, limit in limits]
        for lane, channels in enumerate(window.counted, stages):
            for channel in channels:
                known = before.counted.get(channel) or CountedCut(NOTHING_EMITTED, BEGINNING, before.first_stage_to)
                last, limit = max(known.emitted, window.cursors[lane]), max(known.emitted_to, window.emitted_to[lane])
                counted[channel] = CountedCut(last, limit, known.begin)
        ordinals |= window.ordinals
    return Cut(offset, tuple(emitted), tuple(emitted_to), ordinals, before.begin, counted)
