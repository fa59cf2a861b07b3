"""Programs over count windows: each gives the oracle's bytes, however it is run."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.trimming import TrimmingRig
from tests.workloads import _bid, _click, _sale, streams

import holons as h
from holons.counting import CountWindow
from holons.program import canonical
from holons.semantics import run as run_oracle


class EverySomeRows(h.Program):
    """Exact floats, sketches and keys, of every few rows; whether the values are of all partitions or of one alone."""

    def __init__(self, window: CountWindow, *, shared: bool = True) -> None:
        kind = h.WCRDT if shared else h.WLocal
        self.known = kind(
            h.Product(
                total=h.Sum("float"),
                users=h.MergeMap(h.GCounter()),
                newest=h.LWWRegister(),
                best=h.TopK(2),
                rows=h.GCounter(),
            ),
            window,
        )

    def process(self, events):
        some = events.where(events["page"] != "/help")
        element = {
            "total": some["spent"],
            "users": (some["user"], 1),
            "newest": some["user"],
            "best": (some["spent"], some["page"]),
            "rows": 1,
        }
        self.known.insert(element, some.ts)

    def on_window(self, window):
        known = self.known[window]
        plain = {"total": known["total"], "users": str(sorted(known["users"].items())), "newest": known["newest"]}
        rows = {"best": str(known["best"]), "rows": known["rows"], "last": self.known.last_time(window)}
        yield {"start": window.start, "end": window.end, **plain, **rows}


class WithNulls(h.Program):
    """A row counts unless all of its element is null; and two rows of each event count, one after the other."""

    either = h.WCRDT(h.Product(bids=h.Sum("int"), best=h.MaxRegister()), CountWindow(4))
    twice = h.WCRDT(h.Product(sum=h.PNCounter(), last=h.LWWRegister()), CountWindow(5, partial=True))

    def process(self, events):
        bids = events.select(
            bid=pl.when(pl.col("kind") == "bid").then("price"), fine=pl.when(pl.col("price") > 5).then("price")
        )
        self.either.insert({"bids": bids["bid"], "best": bids["fine"]}, events.ts)
        self.twice.insert({"sum": events["price"], "last": 1}, events.ts)
        self.twice.insert({"sum": -1, "last": events["auction"]}, events.ts)

    @h.on_window(either)
    def on_either(self, window):
        yield {"start": window.start, **self.either[window], "last": self.either.last_time(window)}

    @h.on_window(twice)
    def on_twice(self, window):
        yield {"start": window.start, **self.twice[window], "last": self.twice.last_time(window)}


class BesideTime(h.Program):
    """Windows of time with a second stage, sessions, and two lanes, in one program, into which a Local goes."""

    second = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    later = h.WCRDT(h.PNCounter(), h.Tumbling("3s"), stage=1)
    visits = h.WCRDT(h.GCounter(), h.Session("700ms"))
    few = h.WCRDT(h.MergeMap(h.PNCounter()), CountWindow(3))
    many = h.WLocal(h.PNCounter(), CountWindow(11, every=4))
    calls = h.Local(0, scope="window")

    def process(self, events):
        self.second.insert(1, events.ts)
        self.visits.insert(1, events.ts, key=events["seller"])
        self.few.insert((events["seller"], events["price"]), events.ts)
        gains = events.where(events["price"] > 0)
        self.many.insert(gains["price"], gains.ts)

    @h.on_window(second)
    def on_second(self, window):
        self.later.insert(self.second[window], window)

    @h.on_window(later)
    def on_later(self, window):
        yield {"start": window.start, "n": self.later[window]}

    @h.on_window(visits)
    def on_visits(self, window):
        yield {"start": window.start, "key": window.key, "n": self.visits[window]}

    @h.on_window(few)
    def on_few(self, window):
        self.calls.value += 1
        before = self.few.window.before(window)
        known = sorted(self.few[before].items()) if before.start >= 0 else None
        mine = sorted(self.few[window].share().items())
        yield {"start": window.start, "calls": self.calls.value, "mine": str(mine), "before": str(known)}

    @h.on_window(many)
    def on_many(self, window):
        yield {"start": window.start, "end": window.end, "mine": self.many[window]}


class OneByOne(h.Program):
    """Rows one at a time, of different types, some of which move the clock by hand; emitted once."""

    emit = "once"
    mixed = h.WCRDT(h.Product(last=h.LWWRegister(), n=h.GCounter()), CountWindow(3, every=2, partial=True))
    clock = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    clocked = h.Local(-(2**60))

    def each(self, event):
        if event.ts < self.clocked.value:
            return
        self.clock.insert(1, event.ts)
        self.mixed.insert({"last": event["price"], "n": 1}, event.ts)
        if event["kind"] == "bid":
            self.mixed.insert({"last": event["kind"], "n": 1}, event.ts)
        if event["price"] == 70:
            self.clock.advance(event.ts + 300_000)
            self.clocked.value = max(self.clocked.value, event.ts + 300_000)

    @h.on_window(mixed)
    def on_mixed(self, window):
        yield {"start": window.start, **self.mixed[window], "time": self.mixed.last_time(window)}

    @h.on_window(clock)
    def on_clock(self, window):
        yield {"start": window.start, "n": self.clock[window]}


def every(*window, disorder="0s", shared=True, **options) -> h.Job:
    return h.job(EverySomeRows(CountWindow(*window, **options), shared=shared), "in", disorder=disorder)


JOBS = {
    "tumbling": (every(10), _click, 6),
    "each row": (every(1, disorder="1s"), _click, 4),
    "disorder": (every(7, disorder="700ms"), _click, 6),
    "at one time": (every(5, partial=True), _click, 0.001),
    "pairs": (every(9, every=4, disorder="1s"), _click, 6),
    "nearly all": (every(7, every=6, partial=True), _click, 6),
    "each": (every(4, every=1, disorder="300ms"), _click, 6),
    "never full": (every(1000), _click, 6),
    "the rest": (every(1000, partial=True), _click, 6),
    "alone": (every(6, every=4, disorder="1s", shared=False), _click, 6),
    "alone, to the end": (every(8, partial=True, shared=False), _click, 6),
    "nulls": (h.job(WithNulls(), "in", disorder="1s"), _bid, 5),
    "beside time": (h.job(BesideTime(), "in", disorder="500ms"), _sale, 9),
    "one by one": (h.job(OneByOne(), "in", disorder="200ms"), _bid, 5),
    "two streams": (
        h.job(EverySomeRows(CountWindow(6, every=4)), h.Input("in"), h.Input("beside", disorder="2s")),
        _click,
        5,
    ),
}


@pytest.mark.parametrize("name", JOBS)
@given(seed=st.integers(0, 2**32), rows_max=st.sampled_from([1, 3, 100]))
@settings(max_examples=settings.default.max_examples // 6)
def test_programs_over_count_windows_equal_the_oracle(name, seed, rows_max):
    job, make, span_s = JOBS[name]
    given_streams = streams(job, make, span_s, seed)
    expected = canonical(run_oracle(job, given_streams))
    rig = TrimmingRig(job, given_streams, seed, replicas=1 + seed % 3)
    assert canonical(rig.run(rows_max, mischief=0.1 if seed % 2 else 0.4)) == expected
    assert canonical(run_oracle(job, given_streams, rows_per_call=1 if name == "one by one" else 7)) == expected


@pytest.mark.parametrize("name", JOBS)
def test_programs_over_count_windows_say_something(name):
    job, make, span_s = JOBS[name]
    channels = set().union(*(run_oracle(job, streams(job, make, span_s, seed)) for seed in range(10)))
    silent = {"on_second"}
    assert (channels >= set(job.layout.channels) - silent) == (name != "never full")


@pytest.mark.filterwarnings("ignore::holons.engines.LateRows")
@pytest.mark.parametrize("name", JOBS)
def test_nodes_count_as_the_oracle_does(name):
    job, make, span_s = JOBS[name]
    for seed in range(3):
        given_streams = streams(job, make, span_s, seed)
        run = h.run(job, given_streams, nodes=1 + seed, engine="embedded").wait()
        assert run.results().canonical() == canonical(run_oracle(job, given_streams))


@pytest.mark.parametrize("shared", [True, False])
def test_of_values_that_stay_with_their_partition_little_is_sent(shared):
    class Sketched(h.Program):
        users = (h.WCRDT if shared else h.WLocal)(h.HyperLogLog(12), CountWindow(10))

        def process(self, events):
            self.users.insert(events["user"], events.ts)

        def on_window(self, window):
            yield {"users": round(self.users[window]), "last": self.users.last_time(window)}

    job = h.job(Sketched(), "in")
    run, replica = job.open_run(0, 1), job.open_state(1)
    for batch in streams(job, _click, 6, seed=3, rows=60)["in"][0]:
        if isinstance(batch, pl.DataFrame):
            run.feed(batch, 0)
            break
    sent = 0
    while run.step(replica):
        for message in run.drain()[1]:
            sent += len(message.encode())
            replica.take_in(message)
    assert sent > 0
    assert (sent > 2**12) == shared
