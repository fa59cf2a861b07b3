"""Previews: the newest of each partition counts, beyond what it has sealed, and completes nothing."""

from __future__ import annotations

import random

import polars as pl
import pytest

import holons as h
from holons.errors import CodecError, InvariantBroken, WindowNotCompleted, WrongScope
from holons.program import ProgramRun
from holons.wcrdt import Preview, Replica, Seal

SECOND = 1_000_000


class Kinds(h.Program):
    """Every kind of handle that can be peeked at."""

    tumbling = h.WCRDT(h.GCounter(), h.Tumbling("4s"))
    sliding = h.WCRDT(h.GCounter(), h.Sliding("6s", every="2s"))
    keyed = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("4s"))
    ever = h.WCRDT(h.GCounter(), h.Tumbling("4s"), accumulate=True)
    later = h.WCRDT(h.GCounter(), h.Tumbling("8s"), stage=1)

    def process(self, events):
        for handle in (self.tumbling, self.sliding, self.ever):
            handle.insert(1, events.ts)
        self.keyed.insert((events["user"], 1), events.ts)

    @h.on_window(tumbling)
    def first(self, window):
        self.later.insert(1, window)

    @h.on_window(sliding)
    def second(self, window):
        return ()


JOB = h.job(Kinds(), "in", disorder="3s")
INDEX = JOB.layout.indices


def rows(times: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"ts": times, "user": [f"user {ts % 3}" for ts in times]}, schema={"ts": pl.Int64, "user": pl.String}
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_preview_is_what_has_been_inserted_so_far(seed):
    """However old the previews are, whatever comes late or twice: with the newest of all, nothing is missing."""
    rng = random.Random(seed)
    times = [sorted(rng.randrange(30 * SECOND) for _ in range(40)) for _ in range(3)]
    runs = [ProgramRun(JOB, partition, 3) for partition in range(3)]
    replica, sent, fed = Replica(JOB.layout.handles, 3), [], [0, 0, 0]
    for _ in range(30):
        partition = rng.randrange(3)
        run, at = runs[partition], fed[partition]
        piece = times[partition][at : at + rng.randint(1, 6)]
        if piece:
            run.feed(rows(piece), at)
            fed[partition] += len(piece)
        while run.step(replica):
            pass
        for delta in run.drain()[1]:
            replica.apply(delta)
        sent += [Preview.decode(preview.encode()) for preview in run.previews()]
        for preview in [*rng.sample(sent, min(len(sent), 5)), *sent[-2:]]:
            replica.previews.take(preview, replica.progress)
        seen = [ts for partition in range(3) for ts in times[partition][: fed[partition]]]
        for name in ("tumbling", "sliding", "keyed", "ever"):
            handle = JOB.layout.handles[INDEX[name]]
            for window in handle.window.windows_of(rng.randrange(30 * SECOND)):
                inside = [ts for ts in seen if (ts in window or (name == "ever" and ts < window.start))]
                value = replica.peek(INDEX[name], window, preview=True)
                if not inside:
                    assert not value
                elif name == "keyed":
                    assert value.to_dict() == {
                        f"user {u}": n for u in range(3) if (n := sum(t % 3 == u for t in inside))
                    }
                else:
                    assert value == len(inside), (name, window)
                if not replica.completed(INDEX[name], window):
                    assert replica.peek(INDEX[name], window, preview=False) is None
                    with pytest.raises(WindowNotCompleted):
                        replica.value(INDEX[name], window)


def preview(position: int, count: int, pane: int = 0, partition: int = 0) -> Preview:
    one = h.GCounter()
    payload = one.encode((one.zero(1)[0] + count,))
    return Preview(0, partition, position, (Seal(INDEX["tumbling"], pane, payload),))


def peek(replica: Replica, pane: int = 0) -> object:
    return replica.peek(INDEX["tumbling"], h.Window(pane * 4 * SECOND, (pane + 1) * 4 * SECOND), preview=True)


def test_the_newest_position_wins():
    replica = Replica(JOB.layout.handles, 2)
    assert peek(replica) is None
    for position, count in ((5, 50), (9, 90), (7, 70), (0, 1)):
        replica.previews.take(preview(position, count), replica.progress)
    assert peek(replica) == 90
    replica.previews.take(preview(2, 4, partition=1), replica.progress)
    assert peek(replica) == 94
    replica.previews.take(Preview(0, 0, 10), replica.progress)
    assert peek(replica) == 4, "what is not there any more is gone"


def test_previews_are_no_part_of_a_snapshot_and_do_not_pile_up():
    replica = Replica(JOB.layout.handles, 2)
    before = replica.snapshot()
    for position in range(1000):
        replica.previews.take(preview(position, position), replica.progress)
    assert replica.snapshot() == before
    assert replica.previews.bytes_held() == len(preview(999, 999).panes[0].payload)
    assert peek(Replica(JOB.layout.handles, 2, replica.snapshot())) is None


def test_what_a_partition_has_sealed_is_not_counted_twice():
    run, replica = ProgramRun(JOB, 0, 2), Replica(JOB.layout.handles, 2)
    run.feed(rows([0, 1, 2, 5 * SECOND]), 0)
    run.step(replica)
    early = run.previews()[0]
    run.mark(4 * SECOND, 4)
    run.step(replica)
    replica.previews.take(early, replica.progress)
    assert (peek(replica, 0), peek(replica, 1)) == (3, 1)
    for delta in run.drain()[1]:
        replica.apply(delta)
    assert (peek(replica, 0), peek(replica, 1)) == (3, 1)
    replica.previews.take(early, replica.progress)
    assert (peek(replica, 0), peek(replica, 1)) == (3, 1)


def test_a_later_stage_has_previews_too():
    run, replica = ProgramRun(JOB, 0, 1), Replica(JOB.layout.handles, 1)
    run.feed(rows([0, 5 * SECOND, 9 * SECOND]), 0)
    run.step(replica)
    for delta in run.drain()[1]:
        replica.apply(delta)
    run.step(replica)
    for one in run.previews():
        replica.previews.take(one, replica.progress)
    assert replica.peek(INDEX["later"], h.Window(0, 8 * SECOND), preview=True) == 1


@pytest.mark.parametrize("wrong", [Preview(2, 0, 1), Preview(0, 2, 1), Preview(0, 0, 1, (Seal(9, 0, b""),))])
def test_a_preview_of_another_program_is_refused(wrong):
    replica = Replica(JOB.layout.handles, 2)
    with pytest.raises(InvariantBroken):
        replica.previews.take(wrong, replica.progress)


def test_bytes_that_are_no_preview_are_refused():
    with pytest.raises(CodecError):
        Preview.decode(b"no")


# --- in a program -----------------------------------------------------------------------------------------------------


class Watching(h.Program):
    """Writes down what it peeks at: a WLocal in an hour that is open all the time."""

    mine = h.WLocal(h.GCounter(), h.Tumbling("1h"))
    total = h.WCRDT(h.GCounter(), h.Tumbling("2s"))

    def __init__(self, seen):
        self.seen = seen

    def process(self, events):
        self.seen.append(self.mine.peek(h.Tumbling("1h").at(0), preview=True))
        self.mine.insert(1, events.ts)
        self.total.insert(1, events.ts)

    @h.on_window(total)
    def short(self, window):
        hour = h.Tumbling("1h").at(0)
        self.seen.append((window.end // SECOND, self.mine.peek(hour), self.mine.peek(hour, preview=True)))


def test_of_a_local_one_sees_what_this_partition_has():
    seen: list[object] = []
    job, offset = h.job(Watching(seen), "in"), 0
    runs, replica = [ProgramRun(job, partition, 2) for partition in range(2)], Replica(job.layout.handles, 2)
    for times in ([0, 1], [SECOND], [3 * SECOND]):
        for run in runs:
            run.feed(rows(times), offset)
            run.step(replica)
            for delta in run.drain()[1]:
                replica.apply(delta)
        offset += len(times)
    runs[0].step(replica)
    assert seen == [None, None, 2, 2, 3, 3, (2, None, 4)]


class PeeksAtSessions(h.Program):
    visits = h.WCRDT(h.GCounter(), h.Session("4s"))

    def process(self, events):
        self.visits.insert(1, events.ts)
        self.visits.peek(h.Window(0, 4 * SECOND), preview=True)

    def on_window(self, window):
        return ()


def test_sessions_cannot_be_peeked_at():
    with pytest.raises(WrongScope, match="no window until it closes"):
        h.run(h.job(PeeksAtSessions(), "in"), {"in": [rows([0])]}, engine="embedded").wait()
