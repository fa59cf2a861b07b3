"""Scenarios that are told step by step: each was a bug of some real system."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest
from tests.simulation.cluster import SETTINGS, Cluster
from tests.simulation.scenarios import HighestBid, prepared

import holons as h
from holons.engines.simulator.gated import SimulatedStream
from holons.errors import JobRunning
from holons.node import Node, Settings
from holons.node.partition import PartitionTasklet
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams import MemoryLog
from holons.windows import END, ENDING

TWICE = dataclasses.replace(SETTINGS, replicas=2)
SECOND = 1_000_000


def bids(partition: int, windows: int, *, per_window: int = 3, first: int = 0, ended: bool = True) -> list:
    """Bids of one partition: some in each window of a second."""
    count = windows * per_window
    frame = pl.DataFrame(
        {
            "ts": [first * SECOND + place * SECOND // per_window for place in range(count)],
            "kind": ["bid"] * count,
            "price": [(place * 7 + partition) % 10 for place in range(count)],
            "auction": [place % 4 for place in range(count)],
        }
    )
    return [frame, END] if ended else [frame]


def highest(partitions: int, windows: int) -> tuple[h.Job, dict, dict]:
    job = h.job(HighestBid(), "bids", name="highest")
    streams = {"bids": [bids(partition, windows) for partition in range(partitions)]}
    return job, streams, run_oracle(job, streams, rows_per_call=1000)


def tasklets(node: Node, job: str) -> dict[int, PartitionTasklet]:
    """What a node runs of a job, which it may not have heard of yet."""
    return node.jobs[job].tasklets if job in node.jobs else {}


def stored(cluster: Cluster, job: str, partition: int, kind: str) -> list:
    return cluster.world.records.positions(f"{job}/{partition}/{kind}")


# --- checkpoints and trimming ----------------------------------------------------------------------------------------


def test_checkpoints_of_two_owners_cross_then_trimming_then_both_are_killed():
    job, streams, expected = highest(partitions=1, windows=40)
    cluster = Cluster(streams, TWICE)
    cluster.add(job)
    ahead = cluster.start(0, settings=dataclasses.replace(TWICE, rows_max=1000, checkpoint_s=0.2))
    behind = cluster.start(1, settings=dataclasses.replace(TWICE, rows_max=1, checkpoint_s=0.2))
    cluster.run_until(lambda: all(0 in tasklets(node, "highest") for node in (ahead, behind)))
    cluster.cut(ahead, deaf=True)  # it reads everything, and emits nothing: it does not even hear itself emit
    emission = ahead.jobs["highest"].tasklets[0].run._window
    emission.work = lambda *_: False
    cluster.run_until(
        lambda: (
            stored(cluster, "highest", 0, "window")[-1:] > [(0, 20 * SECOND)]
            and stored(cluster, "highest", 0, "window")[-1][1] > 20 * SECOND
            and behind.jobs["highest"].state.panes[0].trimmed_to > 0
        )
    )
    furthest = stored(cluster, "highest", 0, "process")[-1]
    assert furthest[0] >= 120, "one owner's process record is at the end"
    assert behind.jobs["highest"].tasklets[0].offset < furthest[0], "the other one is behind in its input"
    assert emission.emitted_to[0] < 20 * SECOND, "and ahead in emission"
    cluster.kill(ahead)
    cluster.kill(behind)
    cluster.start(2)
    cluster.finish("highest", expected)


def test_an_input_that_has_ended_still_trims():
    job = h.job(HighestBid(), "bids", name="highest")
    streams = {"bids": [bids(0, 2), bids(1, 1200)]}
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, checkpoint_s=0.05))
    cluster.add(job)
    nodes = [cluster.start(number) for number in range(2)]
    sizes = []
    for limit in range(200, 4800, 200):
        cluster.run_until(lambda limit=limit: cluster.emitted("highest") >= limit)
        sizes.append(max(node.jobs["highest"].state.bytes_held() for node in nodes))
    assert min(sizes) > 0
    assert max(sizes) < 24 * sizes[0] / 4, f"without trimming it were 24 times {sizes[0]}: {sizes}"
    cluster.finish("highest", run_oracle(job, streams, rows_per_call=1000))
    cluster.run_until(lambda: all(node.finished for node in nodes))
    cluster.run(1.0)
    assert all(node.jobs["highest"].state.panes[0].trimmed_to > 1000 * SECOND for node in nodes)


def test_a_crash_while_an_await_is_parked():
    jobs, streams, expected = prepared("alert rule", 1)
    ((name, job),) = jobs.items()
    cluster = Cluster(streams)
    cluster.add(job)
    name = job.name
    first, second = cluster.start(0), cluster.start(1)

    def parked(node: Node) -> bool:
        return any(tasklet.run.progress.parked for tasklet in tasklets(node, name).values())

    cluster.run_until(lambda: parked(first) or parked(second))
    victim = first if parked(first) else second
    victim.close()  # its records say: not yet begun
    cluster.kill(victim)
    cluster.start(2)
    cluster.finish(name, next(iter(expected.values())))


def test_two_copies_over_a_thousand_windows_both_running_at_the_end():
    job, streams, expected = highest(partitions=2, windows=1000)
    cluster = Cluster(streams, TWICE)
    cluster.add(job)
    nodes = [cluster.start(number) for number in range(2)]
    cluster.run_until(lambda: all(node.finished and tasklets(node, "highest") for node in nodes), within_s=200.0)
    cluster.finish("highest", expected)
    for node in nodes:
        here = tasklets(node, "highest")
        assert sorted(here) == [0, 1]
        assert all(tasklet.run.progress.emitted_to == (ENDING,) for tasklet in here.values())


# --- membership ------------------------------------------------------------------------------------------------------


def owners(cluster: Cluster, job: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, node in cluster.nodes.items():
        for partition in tasklets(node, job):
            found.setdefault(partition, []).append(name)
    return found


def claims(cluster: Cluster) -> int:
    """How many claims were ever written."""
    cursor: dict[str, int] = {}
    cluster.world.hubs["control"].read(cursor, 10_000)
    return sum(cursor.values())


def idle_cluster() -> Cluster:
    """Three nodes that have read everything there is, and wait for more."""
    streams = {"bids": [bids(partition, 5, ended=False) for partition in range(4)]}
    cluster = Cluster(streams)
    cluster.add(h.job(HighestBid(), "bids", name="highest"))
    for number in range(3):
        cluster.start(number)
    cluster.run(5.0)
    assert sorted(owners(cluster, "highest")) == [0, 1, 2, 3]
    return cluster


def test_partitions_without_a_single_row_to_read_are_handed_over():
    cluster = idle_cluster()
    leaver = next(node for node in cluster.nodes.values() if node.jobs["highest"].tasklets)
    leaver.leave()
    cluster.run_until(lambda: leaver.left, within_s=5.0)
    cluster.kill(leaver)
    assert sorted(owners(cluster, "highest")) == [0, 1, 2, 3]


def test_after_a_pause_of_ten_timeouts_nobody_is_declared_dead():
    cluster = idle_cluster()
    sleeper = next(node for node in cluster.nodes.values() if node.jobs["highest"].tasklets)
    others = [node for node in cluster.nodes.values() if node is not sleeper]
    cluster.run(10 * SETTINGS.failure_timeout_s, only=others)  # SIGSTOP
    assert all(len(names) == 1 for names in owners(cluster, "highest").values() if sleeper.name not in names)
    before = claims(cluster)
    assert sorted({name for names in owners(cluster, "highest").values() for name in names}) != []
    sleeper.tick()  # SIGCONT
    assert sleeper.membership.live() == sorted(cluster.nodes)
    cluster.run(0.3)
    assert all(node.membership.live() == sorted(cluster.nodes) for node in cluster.nodes.values())
    cluster.run(10.0)
    assert sorted(owners(cluster, "highest")) == [0, 1, 2, 3]
    assert claims(cluster) - before <= 4, "at most what evens out the load again"


def test_after_an_outage_of_the_log_nobody_is_declared_dead():
    cluster = idle_cluster()
    before = claims(cluster), owners(cluster, "highest")
    cluster.world.log_down_until_s = cluster.world.now_s + 10 * SETTINGS.failure_timeout_s
    cluster.run(10 * SETTINGS.failure_timeout_s + 1.0)
    assert all(node.membership.live() == sorted(cluster.nodes) for node in cluster.nodes.values())
    assert (claims(cluster), owners(cluster, "highest")) == before


@pytest.mark.parametrize("way", ["deaf", "mute"])
def test_a_node_cut_off_in_one_direction_does_no_harm(way):
    job, streams, expected = highest(partitions=4, windows=60)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2))
    cluster.add(job)
    first = cluster.start(0)
    cluster.start(1)
    cluster.start(2)
    cluster.run_until(lambda: bool(cluster.collected("highest")))
    cluster.cut(first, **{way: True})
    cluster.run(5.0)
    cluster.cut(first)
    cluster.finish("highest", expected)


def test_a_node_restarted_under_the_same_name_is_a_new_one():
    job, streams, expected = highest(partitions=4, windows=60)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2))
    cluster.add(job)
    first = cluster.start(0)
    cluster.start(1)
    cluster.run_until(lambda: bool(tasklets(first, "highest")) and bool(cluster.collected("highest")))
    cluster.kill(first)
    again = cluster.start(0, incarnation=2)
    cluster.run(0.3)
    assert not tasklets(again, "highest"), "what its predecessor held is not its own"
    cluster.finish("highest", expected)
    assert not any(node.membership.alive("node-0#1") for node in cluster.nodes.values())


def test_with_two_copies_a_death_leaves_no_gap(monkeypatch):
    """Each window comes out at the same virtual time as without the death, give or take a few ticks."""
    monkeypatch.setattr(SimulatedStream, "_arrived", lambda *_: True)  # nothing else is to be seen

    def emission_times(*, kill: bool) -> dict[int, float]:
        cluster = Cluster({}, TWICE)
        cluster.world.inputs["bids"] = MemoryLog(3)
        cluster.add(h.job(HighestBid(), "bids", name="highest"))
        nodes = [cluster.start(number) for number in range(4)]
        cluster.run(3.0)
        times: dict[int, float] = {}
        began_s = cluster.world.now_s
        for window in range(60):
            for partition in range(3):
                rows = bids(partition, 1, first=window, ended=False)[0].to_arrow().to_batches()[0]
                cluster.world.inputs["bids"].append(partition, rows)
            if kill and window == 30:
                victim = max(nodes, key=lambda node: len(node.jobs["highest"].tasklets))
                assert victim.jobs["highest"].tasklets
                cluster.kill(victim)
            for _ in range(5):
                cluster.run(0.02)
                for row in cluster.collected("highest").get("on_window", {}).get(0, []):
                    times.setdefault(row["window"], cluster.world.now_s - began_s)
        return times

    calm, struck = emission_times(kill=False), emission_times(kill=True)
    assert min(len(calm), len(struck)) >= 55
    assert (
        max(struck[window] - calm[window] for window in calm if window in struck) < 0.2
    )  # the failure timeout is a whole second


# --- versions --------------------------------------------------------------------------------------------------------


class SecondHighest(HighestBid):
    """A new version, with other results."""

    def on_window(self, window):
        for price, auction in self.highest[window][1:]:
            yield {"window": window.start, "price": -price, "auction": auction}


def test_cancel_and_resubmit_under_the_same_name():
    job, streams, expected = highest(partitions=2, windows=40)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2))
    nodes = [cluster.start(number) for number in range(2)]
    first = cluster.submit(job)
    cluster.run_until(lambda: bool(cluster.collected("highest")))
    assert cluster.submit(job) == first, "the very same job is found again"
    other = h.job(SecondHighest(), "bids", name="highest")
    with pytest.raises(JobRunning):
        cluster.submit(other)
    cluster.cancel("highest")
    cluster.run_until(lambda: not any(node.jobs for node in nodes))
    written = canonical(cluster.world.collected(first.id))
    again = cluster.submit(job)
    assert again.id != first.id
    cluster.finish("highest", expected)
    assert canonical(cluster.world.collected(first.id)) == written, "the cancelled one wrote nothing more"
    cluster.run_until(lambda: all(node.finished for node in nodes))


def upgraded(old: dict, new: dict, cuts) -> dict:
    """What two oracles say, put together at the cuts; by what the rows say, not by their number."""
    expected: dict = {}
    for partition, cut in enumerate(cuts):
        upto = max(cut.emitted_to[0], cut.emitted[0][0]) if cut.emitted_to else -1
        rows = [row for row in old["on_window"][partition] if row["window"] + SECOND <= upto]
        rows += [row for row in new["on_window"][partition] if row["window"] + SECOND > upto]
        expected.setdefault("on_window", {})[partition] = rows
    return expected


def test_an_upgrade_with_a_zombie_of_the_old_version():
    job, streams, old = highest(partitions=3, windows=60)
    newer = h.job(SecondHighest(), "bids", name="highest")
    new = run_oracle(newer, streams, rows_per_call=1000)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2, checkpoint_s=0.1))
    nodes = [cluster.start(number) for number in range(3)]
    first = cluster.submit(job)
    cluster.run_until(lambda: len(stored(cluster, first.id, 0, "window")) >= 2 and bool(cluster.collected("highest")))
    zombie = nodes[0]
    cluster.cut(zombie, deaf=True)  # it never hears of the upgrade, and goes on with the old version
    second = cluster.submit(newer, upgrade=True, to=nodes[1:])
    assert any(cut.ordinals for cut in second.cuts), "the old version had put something out"
    expected = upgraded(old, new, second.cuts)
    assert expected != old
    assert expected != new
    cluster.finish("highest", expected)
    assert first.id in zombie.jobs, "it still runs the old one"
    zombie.jobs[first.id].settings = dataclasses.replace(SETTINGS, rows_max=1000)
    cluster.run(3.0)
    assert canonical(cluster.collected("highest")) == canonical(expected)
    cluster.cut(zombie)
    cluster.run(2.0)
    assert first.id not in zombie.jobs


@pytest.mark.parametrize("meanwhile_s", [0.0, 0.05, 0.3, 1.0])
def test_an_upgrade_of_an_upgrade_that_had_hardly_begun(meanwhile_s):
    job, streams, old = highest(partitions=2, windows=60)
    cluster = Cluster(streams, dataclasses.replace(SETTINGS, rows_max=2, checkpoint_s=0.1))
    for number in range(2):
        cluster.start(number)
    first = cluster.submit(job)
    cluster.run_until(lambda: len(stored(cluster, first.id, 0, "window")) >= 2 and bool(cluster.collected("highest")))
    newer = h.job(SecondHighest(), "bids", name="highest")
    new = run_oracle(newer, streams, rows_per_call=1000)
    second = cluster.submit(newer, upgrade=True)
    cluster.run(meanwhile_s)  # at first it is silent: it computes what the first had put out
    third = cluster.submit(job, upgrade=True)
    assert third.generation == 2
    cluster.finish("highest", upgraded(upgraded(old, new, second.cuts), old, third.cuts))


def test_two_nodes_that_disagree_about_a_seal_stop_the_job():
    class Fickle(HighestBid):
        def process(self, events):
            run = events.where(events["price"] > self.least)
            self.highest.insert((run["price"], run["auction"]), run.ts)

        def __init__(self, least: int) -> None:
            self.least = least

    streams = {"bids": [bids(0, 30)]}
    cluster = Cluster(streams, TWICE)
    for number in range(2):
        cluster.start(number).add_job("fickle", h.job(Fickle(number * 9), "bids", name="fickle"))
    cluster.run_until(lambda: all("fickle" in node.stopped for node in cluster.nodes.values()))
    assert next(iter(cluster.nodes.values())).stopped["fickle"].kind in ("NondeterministicProgram", "InvariantBroken")


def test_a_job_that_fails_leaves_the_others_alone():
    class Failing(HighestBid):
        def on_window(self, window):
            if window.start >= 5 * SECOND:
                raise ValueError("cannot go on")
            yield {"window": window.start}

    job, streams, expected = highest(partitions=2, windows=30)
    cluster = Cluster(streams, Settings(rows_max=5, poison_deaths=100))
    cluster.add(job)
    cluster.add(h.job(Failing(), "bids", name="failing"))
    nodes = [cluster.start(number) for number in range(2)]
    cluster.finish("highest", expected)
    cluster.run_until(lambda: all("failing" in node.stopped for node in nodes))
    stopped = nodes[0].stopped["failing"]
    assert stopped.failed
    assert "cannot go on" in stopped.reason or "window" in stopped.reason
    out = cluster.world.collected("failing")["on_window"]
    windows = [{"window": number * SECOND} for number in range(5)]
    assert all(rows == windows[: len(rows)] for rows in out.values())
    assert sum(map(len, out.values())) >= 4, "who is told to stop may have a window to go"
