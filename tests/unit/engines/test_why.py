"""What `why` tells is counted here once more, by hand, over rows and by sequential folds."""

from __future__ import annotations

import contextlib
import re

import polars as pl
import pytest
from tests.workloads import EXAMPLES, load, streams

import holons as h
from holons.engines import replay
from holons.engines.memory_site import MemorySite, logs_of
from holons.engines.why import Contribution, SealedByNodes, why
from holons.errors import BadInput, UnknownWindow, WindowNotCompleted
from holons.node import Node, Settings, sync_stream
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.wcrdt import Delta
from holons.windows import END, Mark

SECOND = 1_000_000


class Share(h.Program):
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    local = h.WLocal(h.GCounter(), h.Tumbling("1s"))
    ever = h.WCRDT(h.GCounter(), h.Tumbling("1s"), accumulate=True)

    def process(self, events):
        bids = events.where(events["kind"] == "bid")
        self.total.insert(1, bids.ts)
        self.local.insert(1, bids.ts)
        self.ever.insert(bids["n"], bids.ts)

    def on_window(self, window):
        yield {"window": window.start, "share": self.local[window] / self.total[window]}


def rows(*given: tuple[float, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {"ts": [int(at * SECOND) for at, _ in given], "kind": [kind for _, kind in given], "n": [10] * len(given)}
    )


ONE = rows((0.1, "bid"), (0.5, "ask"), (1.0, "ask"), (1.2, "bid"), (1.9, "bid"), (2.0, "bid"))
TWO = [rows((0.2, "bid")), Mark(int(0.5 * SECOND)), rows((1.1, "bid"), (0.3, "bid"), (3.5, "bid"))]
SHARE = h.job(Share(), "bids")


def test_rows_offsets_values_and_outputs_of_a_window():
    (told,) = why(SHARE, logs_of({"bids": [ONE, TWO]}), SECOND)
    assert told.window == h.Window(SECOND, 2 * SECOND)
    assert told.values == {"total": 3, "ever": 50}
    assert told.contributions == (
        Contribution("total", 0, 2, 3, 4, 2),
        Contribution("total", 1, 1, 2, 2, 1),  # the mark has an offset too; the late row is not counted
        Contribution("local", 0, 2, 3, 4, 2),
        Contribution("local", 1, 1, 2, 2, 1),
        Contribution("ever", 0, 3, 0, 4, 30),
        Contribution("ever", 1, 2, 0, 2, 20),
    )
    shares = (0, 1, {"window": SECOND, "share": 2 / 3}), (1, 1, {"window": SECOND, "share": 1 / 3})
    assert told.outputs == {"on_window": shares}
    assert told.channels == ("on_window",)


def test_a_partition_that_added_nothing_is_listed_with_nothing():
    (told,) = why(SHARE, logs_of({"bids": [ONE, TWO]}), 3 * SECOND)
    assert told.contributions[0] == Contribution("total", 0, 0, None, None, 0)
    assert told.values == {"total": 1, "ever": 70}


@pytest.mark.parametrize("name", EXAMPLES)
def test_all_windows_together_put_out_what_the_oracle_says(name: str):
    job = load(name)
    given = streams(job, *EXAMPLES[name], seed=0, rows=20)
    expected = run_oracle(job, given, rows_per_call=1000)
    asked = [(one, channel) for one in job.layout.callbacks for channel in job.layout.channels_of(one)]
    assert {channel for _, channel in asked} == set(job.layout.channels)
    for callback, channel in asked:
        emitted: dict[int, dict[int, dict]] = {}
        explained = 0
        for start in possible_starts(callback.window, given):
            with contextlib.suppress(UnknownWindow):
                for told in why(job, logs_of(given), start, channel=channel):
                    explained += any(part.rows for part in told.contributions)
                    for partition, ordinal, row in told.outputs.get(channel, ()):
                        emitted.setdefault(partition, {})[ordinal] = row
        assert explained
        got = {partition: [found[at] for at in range(len(found))] for partition, found in sorted(emitted.items())}
        assert got == {partition: found for partition, found in expected.get(channel, {}).items() if found}


def possible_starts(spec, given) -> list[int]:
    """Where a window may start that has a row in it."""
    frames = [piece for logs in given.values() for log in logs for piece in log if isinstance(piece, pl.DataFrame)]
    times = {ts for frame in frames for ts in frame["ts"].drop_nulls().to_list()}
    if spec.counted:
        return list(range(0, sum(map(len, frames)), spec.every))
    if isinstance(spec, h.Session):
        return sorted(times)
    return sorted({window.start for ts in times for window in spec.windows_of(ts)})


def test_sessions_are_explained_by_key():
    class Sessions(h.Program):
        clicks = h.WCRDT(h.Sum("int"), h.Session("2s"))

        def process(self, events):
            self.clicks.insert(events["n"], events.ts, key=events["kind"])

        def on_window(self, session):
            yield {"who": session.key, "n": self.clicks[session]}

    logs = {"bids": [rows((0, "ann"), (0, "bob"), (1, "ann"), (9, "ann")), rows((1.5, "ann"), (9, "bob"))]}
    told = {one.window.key: one for one in why(h.job(Sessions(), "bids"), logs_of(logs), 0)}
    assert set(told) == {"ann", "bob"}
    assert told["ann"].values == {"clicks": 30}
    assert told["ann"].contributions == (
        Contribution("clicks", 0, 2, 0, 2, 20),
        Contribution("clicks", 1, 1, 0, 0, 10),
    )
    (bob,) = why(h.job(Sessions(), "bids"), logs_of(logs), 0, key="bob")
    assert bob.values == {"clicks": 10}


class Busiest(h.Program):
    """What its second stage takes says which window inserted it, so that `why` can be held to it."""

    bids = h.WLocal(h.GCounter(), h.Tumbling("1s"))
    longer = h.WLocal(h.GCounter(), h.Tumbling("2s"))
    starts = h.WCRDT(h.GSet(), h.Tumbling("4s"), stage=1)
    ever = h.WCRDT(h.GSet(), h.Tumbling("4s"), stage=1, accumulate=True)

    def process(self, events):
        self.bids.insert(1, events.ts)
        self.longer.insert(1, events.ts)

    @h.on_window(bids)
    def seconds(self, window):
        if self.bids[window]:  # a window of one partition alone is called for all of them
            self.starts.insert([window.start] * self.bids[window], window)
            self.ever.insert(window.start, window)
        yield {}

    @h.on_window(longer)
    def pairs(self, window):
        yield {}

    @h.on_window(starts)
    def all_of_it(self, window):
        yield {"starts": sorted(self.starts[window])}


def test_a_later_stage_is_told_by_the_windows_that_fed_it_and_has_no_offsets():
    one = rows((0.5, "a"), (1.5, "a"), (4.5, "a"), (5.2, "a"), (5.7, "a"), (7.5, "a"))
    two = rows((2.5, "a"), (6.1, "a"))
    told = why(h.job(Busiest(), "bids"), logs_of({"bids": [one, two]}), 4 * SECOND, channel="all_of_it")
    assert [(part.stage, part.window) for part in told] == [(1, h.Window(4 * SECOND, 8 * SECOND))]
    four, six, seven = (h.Window(start * SECOND, (start + 1) * SECOND) for start in (4, 6, 7))
    zero, two_ = h.Window(0, SECOND), h.Window(2 * SECOND, 3 * SECOND)
    found = [
        (part.handle, part.partition, part.rows, part.first_window, part.last_window) for part in told[0].contributions
    ]
    assert found == [
        ("starts", 0, 4, four, seven),
        ("starts", 1, 1, six, six),
        ("ever", 0, 5, zero, seven),
        ("ever", 1, 2, two_, six),
    ]
    for part in told[0].contributions:
        assert (part.first, part.last) == (None, None)
        assert (min(part.value), max(part.value)) == (part.first_window.start, part.last_window.start)


def test_sessions_that_fed_a_later_stage_are_told_with_their_keys():
    class Long(h.Program):
        clicks = h.WCRDT(h.Sum("int"), h.Session("2s"))
        sessions = h.WCRDT(h.GCounter(), h.Tumbling("20s"), stage=1)

        def process(self, events):
            self.clicks.insert(events["n"], events.ts, key=events["kind"])

        @h.on_window(clicks)
        def closed(self, session):
            self.sessions.insert(1, session)
            yield {}

        @h.on_window(sessions)
        def counted(self, window):
            yield {"n": self.sessions[window]}

    logs = {"bids": [rows((0, "ann"), (1, "bob"), (9, "ann"))]}
    (told,) = why(h.job(Long(), "bids"), logs_of(logs), 0, channel="counted")
    (part,) = told.contributions
    assert (part.rows, part.first, part.last) == (3, None, None)
    assert part.first_window == h.Window(0, 2 * SECOND, "ann")
    assert part.last_window == h.Window(9 * SECOND, 11 * SECOND, "ann")


def test_all_keys_whose_sessions_start_together_are_explained_however_long_they_last(monkeypatch):
    monkeypatch.setattr(replay, "_ROWS_PER_READ", 3)
    job = h.job(h.source("bids").window(h.Session("2s")).group_by("kind").agg(n=h.count()).to("sessions"))
    times = [(float(at), "bob") for at in range(1, 60)]
    logs = logs_of({"bids": [rows((1.0, "ann"), *times)]})
    explained = why(job, logs, SECOND)
    assert [(one.window.key, one.window.end) for one in explained] == [("ann", 3 * SECOND), ("bob", 61 * SECOND)]


# --- compared with what nodes sealed ----------------------------------------------------------------------------------


def ran(job: h.Job, given) -> MemorySite:
    world = MemorySite(logs_of(given))
    node = Node("node-1#1", world.ports("node-1#1"), Settings(checkpoint_s=0.05, snapshot_deltas=2, rows_max=1))
    node.add_job(job.name, job)
    while not node.finished:
        world.clock.sleep_s(0.01)
        node.tick()
    for _ in range(100):
        world.clock.sleep_s(0.1)
        node.tick()
    return world


def verdicts(world: MemorySite, start: int, sealed: SealedByNodes) -> set:
    return {part.sealed for one in why(SHARE, world.inputs, start, sealed=sealed) for part in one.contributions}


def test_it_agrees_with_the_sync_stream_or_says_that_it_was_trimmed():
    world = ran(SHARE, {"bids": [ONE, TWO]})
    sync = world.shared(sync_stream(SHARE.name), "reader#1")
    assert verdicts(world, 0, SealedByNodes.read(SHARE, 2, sync, world.records)) <= {"agrees", "trimmed"}
    assert verdicts(world, 3 * SECOND, SealedByNodes.read(SHARE, 2, sync, world.records)) == {"agrees"}
    assert verdicts(world, 0, SealedByNodes([])) == {"not sealed"}


def test_other_seals_are_noticed():
    world = ran(SHARE, {"bids": [ONE, TWO]})
    other = ran(SHARE, {"bids": [ONE[:-2], TWO]})
    messages = other.shared(sync_stream(SHARE.name), "reader#1").read({}, 1000)
    sealed = SealedByNodes([Delta.decode(message.data) for message in messages], None)
    assert "differs" in verdicts(world, SECOND, sealed) | verdicts(world, 3 * SECOND, sealed)


# --- what cannot be explained -----------------------------------------------------------------------------------------


def test_windows_near_it_are_named_if_there_is_none():
    logs = logs_of({"bids": [ONE, TWO]})
    with pytest.raises(
        UnknownWindow, match=r"(?s)no window of Share starts at 1000001.*near it are 1000000 .*, 2000000 "
    ):
        why(SHARE, logs, SECOND + 1)
    with pytest.raises(
        UnknownWindow, match=r"(?s)nothing is in a window of Share that starts at 7.*near it are 3000000 "
    ):
        why(SHARE, logs, 7 * SECOND)
    with pytest.raises(BadInput, match=r"(?s)no channel 'alerts'.*on_window"):
        why(SHARE, logs, SECOND, channel="alerts")


CLICKS = h.source("bids")
SEVERAL = h.job(
    CLICKS.window(h.Sliding("10s", every="5s")).agg(n=h.count()).to("slide"),
    CLICKS.window(h.Tumbling("4s")).agg(n=h.count()).to("tumble"),
    CLICKS.window(h.Session("2s")).group_by("kind").agg(n=h.count()).to("sessions"),
    name="several",
)


def near(start: int, channel: str | None = None) -> tuple[str, list[int]]:
    """What is said of a window that is not there, and where those named instead start."""
    logs = logs_of({"bids": [rows((0, "a"), (21, "b"), (22, "b"), (38, "a"))]})
    with pytest.raises(UnknownWindow) as error:
        why(SEVERAL, logs, start, channel=channel)
    return error.value.message, [int(found) for found in re.findall(r"(\d+) \(\[", error.value.hint)]


def test_windows_of_all_channels_are_near_unless_one_was_named():
    told, found = near(20 * SECOND + 1)
    assert told == "no window of several starts at 20000001"
    assert found == [20 * SECOND, 20 * SECOND, 21 * SECOND]
    told, found = near(20 * SECOND + 1, "slide")
    assert told == "no window of channel 'slide' starts at 20000001"
    assert found == [20 * SECOND, 15 * SECOND, 30 * SECOND]
    assert near(20 * SECOND + 1, "tumble")[1] == [20 * SECOND, 36 * SECOND, 0]
    assert near(20 * SECOND + 1, "sessions")[1] == [21 * SECOND, 38 * SECOND, 0]


def test_what_is_near_may_come_much_later():
    log = MemoryLog(1)
    far = pl.DataFrame({"ts": range(100 * SECOND, 400 * SECOND, 10_000), "kind": "bid", "n": 1})  # more than one read
    for batch in far.to_arrow().to_batches():
        log.append(0, batch)
    with pytest.raises(UnknownWindow, match=r"near it are 398000000 "):
        why(SHARE, {"bids": log}, 398 * SECOND + 1)


def test_of_an_empty_log_no_window_is_named():
    with pytest.raises(UnknownWindow, match="there is none at all"):
        why(SHARE, logs_of({"bids": [ONE[:0]]}), 1)


def test_a_window_that_is_not_complete_is_not_explained():
    log = MemoryLog(2)
    log.append(0, ONE.to_arrow().to_batches()[0])
    with pytest.raises(WindowNotCompleted, match=r"partitions \[1\]"):
        why(SHARE, {"bids": log}, SECOND)
    log.mark(1, END.ts)
    assert why(SHARE, {"bids": log}, SECOND)[0].values["total"] == 2


def test_a_trimmed_input_cannot_be_run_again():
    log = MemoryLog(1)
    log.append(0, ONE.to_arrow().to_batches()[0])
    log.mark(0, END.ts)
    log.trim(0, 6)
    with pytest.raises(BadInput, match="only begins at offset 6"):
        why(SHARE, {"bids": log}, SECOND)
