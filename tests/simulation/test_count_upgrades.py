"""Upgrades of jobs that count rows: the clocks of count windows keep their meaning when the number of stages changes."""

from __future__ import annotations

import dataclasses

import pytest
from tests.simulation.cluster import SETTINGS, Cluster
from tests.simulation.test_scenarios import bids, stored

import holons as h
from holons.counting import CountWindow
from holons.errors import BadInput
from holons.semantics import run as run_oracle


class Counts(h.Program):
    """Windows of three bids and of five."""

    few = h.WCRDT(h.PNCounter(), CountWindow(3))
    many = h.WCRDT(h.GCounter(), CountWindow(5))
    second = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.few.insert(events["price"], events.ts)
        self.many.insert(1, events.ts)
        self.second.insert(1, events.ts)

    @h.on_window(few)
    def on_few(self, window):
        yield {"end": window.end, "sum": self.few[window]}

    @h.on_window(many)
    def on_many(self, window):
        yield {"end": window.end, "n": self.many[window]}

    @h.on_window(second)
    def on_second(self, window):
        yield {"end": window.end, "n": self.second[window]}


class WithLaterStage(Counts):
    """The same, and a second stage."""

    later = h.WCRDT(h.GCounter(), h.Tumbling("3s"), stage=1)

    @h.on_window(Counts.second)
    def on_second(self, window):
        self.later.insert(self.second[window], window)
        yield {"end": window.end, "n": self.second[window]}

    @h.on_window(later)
    def on_later(self, window):
        yield {"end": window.end, "later": self.later[window]}


class Weeks(h.Program):
    week = h.WCRDT(h.GCounter(), CountWindow(7))

    @h.on_window(week)
    def on_week(self, window):
        yield {"end": window.end, "time": self.week.last_time(window)}


class WithAnotherLane(Counts, Weeks):
    """The same, and windows of seven bids, whose lane comes before the others."""

    def process(self, events):
        super().process(events)
        self.week.insert(1, events.ts)


class InTime(h.Program):
    """What was counted in windows of rows is counted in windows of time, in the channel of before."""

    few = h.WCRDT(h.PNCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.few.insert(events["price"], events.ts)

    @h.on_window(few)
    def on_few(self, window):
        yield {"end": window.end, "sum": self.few[window]}


STREAMS = {"bids": [bids(partition, 25) for partition in range(2)]}


def begun(program: h.Program) -> Cluster:
    """A cluster in which a job has emitted something of every channel, and stored it."""
    cluster = Cluster(STREAMS, dataclasses.replace(SETTINGS, rows_max=2, checkpoint_s=0.05))
    for number in range(2):
        cluster.start(number)
    job = h.job(program, "bids", name="counts")
    version = cluster.submit(job)
    channels = set(job.layout.channels)
    cluster.run_until(lambda: channels <= set(cluster.collected("counts")))
    before = [stored(cluster, version.id, partition, "window")[-1:] for partition in range(2)]
    cluster.run_until(
        lambda: all(stored(cluster, version.id, partition, "window")[-1:] > before[partition] for partition in range(2))
    )
    return cluster


@pytest.mark.parametrize(
    ("old", "new"),
    [(WithLaterStage, Counts), (Counts, WithLaterStage), (WithAnotherLane, Counts), (Counts, WithAnotherLane)],
)
def test_an_upgrade_emits_each_count_window_once(old, new):
    cluster = begun(old())
    newer = h.job(new(), "bids", name="counts")
    cuts = cluster.submit(newer, upgrade=True).cuts
    before = run_oracle(h.job(old(), "bids"), STREAMS)
    after = run_oracle(newer, STREAMS)
    expected: dict = {}
    for channel in {*before, *after}:
        for partition, cut in enumerate(cuts):
            emitted = cut.ordinals.get(channel, 0)
            rows = before.get(channel, {}).get(partition, [])[:emitted]
            if channel in before:
                rows = rows + after.get(channel, {}).get(partition, [])[emitted:]
            elif (
                channel == "on_later"
            ):  # windows that were over when the older version left off are not of the newer one
                rows = [row for row in after[channel][partition] if row["end"] > cut.emitted_to[0]]
            else:
                rows = [row for row in after[channel][partition] if row["time"] > cut.emitted_to[0]]
            if rows:
                expected.setdefault(channel, {})[partition] = rows
    assert any(cut.ordinals.get("on_few") for cut in cuts)
    cluster.finish("counts", expected)


def test_count_windows_do_not_become_windows_of_time_in_one_channel():
    cluster = begun(Counts())
    with pytest.raises(BadInput, match="'on_few'") as error:
        cluster.submit(h.job(InTime(), "bids", name="counts"), upgrade=True)
    assert error.value.hint
