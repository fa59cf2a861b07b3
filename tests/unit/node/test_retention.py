"""Retention: what goes, and what stays since somebody needs it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.handles import Count

import holons as h
from holons.clock import Random, seeded
from holons.engines.collecting import emitted
from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.errors import BadInput, RowsTrimmed
from holons.node import Decisions, Node, Settings, Stopped, cancel, retain, submit
from holons.node.jobs import stop
from holons.semantics import run as run_oracle
from holons.windows import END

HOUR_S = 3600
SECOND = 1_000_000
JOB = h.job(Count(), "visits")
SETTINGS = Settings(checkpoint_s=1.0, failure_timeout_s=5.0, heartbeat_s=1.0, tick_max_s=20.0, stagger_s=1.0)


class HandSet:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def worked_s(self) -> float:
        return self.at_s

    def utc_us(self) -> int:
        return round(self.at_s * SECOND)

    def sleep_s(self, seconds: float) -> None:
        self.at_s += seconds

    def random(self) -> Random:
        return seeded(0)


@pytest.fixture(params=["memory", "directory"])
def site(request, tmp_path):
    clock = HandSet()
    site = MemorySite(clock=clock) if request.param == "memory" else DirectorySite(tmp_path, clock=clock)
    site.create("visits", 1)
    return site


class World:
    """A site, a producer that appends a row every ten seconds, and a node that runs jobs."""

    def __init__(self, site):
        self.site, self.clock = site, site.clock
        self.producer = site.producer("visits", 1, "producer#1")
        self.nodes = []
        self.appended = 0

    def pass_time(self, seconds: int, *, rows: bool = True) -> None:
        for _ in range(seconds // 10):
            self.clock.sleep_s(10)
            if rows:
                self.producer.append(0, pa.record_batch({"ts": [self.appended * 10 * SECOND]}))
                self.appended += 1
            for node in self.nodes:
                for _ in range(3):
                    node.tick()

    def start(self, version, job=JOB) -> Node:
        name = f"node-{len(self.nodes)}#{self.appended}"
        node = Node(name, self.site.ports(name), SETTINGS)
        node.add_job(version.id, job, version.cuts)
        self.nodes.append(node)
        return node

    def retain(self, name="keeper") -> int:
        """Returns where the input begins then."""
        retain(self.site.ports(f"{name}-{self.clock.now_s()}"))
        return self.site.input("visits", "reader").start(0)

    def rows(self, name):
        return [row for rows in emitted(self.site, name).collected().get("on_window", {}).values() for row in rows]


@pytest.fixture
def world(site):
    return World(site)


def test_without_a_rule_everything_is_kept_for_ever(world):
    world.pass_time(HOUR_S)
    assert world.retain() == 0


def test_rows_go_by_the_time_at_which_they_were_appended(world):
    world.site.retention().keep_input("visits", "1h")
    world.pass_time(1000)
    assert world.retain() == 0
    world.pass_time(HOUR_S + 10, rows=False)
    assert world.retain() == 101, "and the mark that made the stream"
    world.pass_time(600)
    assert world.retain() == 101
    world.site.retention().keep_input("visits", None)
    world.pass_time(2 * HOUR_S)
    assert world.retain() == 101


def test_no_row_goes_that_a_job_may_still_need_even_if_it_does_not_run(world):
    world.site.retention().keep_input("visits", "10m")
    version = submit(JOB, world.site.ports("driver"))
    world.pass_time(1200)
    assert world.retain() == 0, "the job has not begun"
    world.start(version)
    world.pass_time(1200)
    start = world.retain()
    assert 120 < start <= 241 - 60
    world.nodes.clear()  # killed, without a word
    world.pass_time(3 * HOUR_S)
    held = world.retain()
    assert 230 <= held <= 241
    assert world.retain() == held
    world.start(version)
    world.pass_time(1200)
    assert world.retain() > 1000
    world.producer.mark(0, END.ts)
    world.pass_time(100, rows=False)
    expected = run_oracle(JOB, {"visits": [[all_rows(world), END]]}, rows_per_call=10_000)
    assert world.rows(JOB.name) == expected["on_window"][0]


def all_rows(world):
    return pa.record_batch({"ts": [number * 10 * SECOND for number in range(world.appended)]})


def test_a_stopped_job_holds_nothing(world):
    world.site.retention().keep_input("visits", "10m")
    submit(JOB, world.site.ports("driver"))
    world.pass_time(HOUR_S)
    assert world.retain() == 0
    cancel(JOB.name, world.site.ports("driver-2"))
    world.pass_time(100)
    assert world.retain() > 300


def test_a_job_that_is_submitted_later_begins_where_the_stream_begins(world):
    world.site.retention().keep_input("visits", "10m")
    world.pass_time(HOUR_S)
    start = world.retain()
    version = submit(JOB, world.site.ports("driver"))
    assert [cut.begin for cut in version.cuts] == [start]
    world.start(version)
    world.pass_time(100)
    first = start - 1  # a mark came before the rows
    assert world.rows(JOB.name)[0] == {"window": first * 10 * SECOND, "n": 1}
    assert not world.nodes[0].failures


def test_a_job_that_needs_the_whole_stream_is_refused(world):
    whole = h.job(Count(), h.Input("visits", whole=True))
    submit(whole, world.site.ports("driver"))
    cancel(whole.name, world.site.ports("driver"))
    world.site.retention().keep_input("visits", "10m")
    world.pass_time(HOUR_S)
    world.retain()
    with pytest.raises(BadInput, match=r"needs the whole of 'visits', and partition 0 only begins at 30\d"):
        submit(whole, world.site.ports("driver"))


def test_an_upgrade_without_the_whole_input_is_refused_and_says_why(world):
    world.site.retention().keep_input("visits", "10m")
    world.start(submit(JOB, world.site.ports("driver")))
    world.pass_time(HOUR_S)
    world.retain()
    newer = h.job(Count(), h.Input("visits", disorder="1s"))
    with pytest.raises(BadInput, match=r"cannot be upgraded.*only begins at"):
        submit(newer, world.site.ports("driver-2"), upgrade=True)


def test_of_a_job_and_a_trim_at_the_same_moment_one_comes_first(world):
    """The trimmer has looked who reads the stream; before it decides, a job is submitted that begins at 0."""
    world.site.retention().keep_input("visits", "10m")
    world.pass_time(HOUR_S)
    ports, late = world.site.ports("keeper"), []

    class Meanwhile:
        inputs, outputs = ports.retention.inputs, ports.retention.outputs

        def consumed(self, stream, version=""):
            if not late:
                late.append(submit(JOB, world.site.ports("driver")))
            return {}

    retain(replace(ports, retention=Meanwhile()))
    assert late[0].cuts == ()
    assert world.site.input("visits", "reader").start(0) == 0


def test_a_named_consumer_holds_rows_until_it_has_read_them(world):
    rules = world.site.retention()
    rules.keep_input("visits", "10m")
    world.pass_time(HOUR_S)
    rules.consume("dashboard", "visits", [17])
    assert world.retain() == 17
    rules.consume("dashboard", "visits", [40])
    rules.consume("archive", "visits", [30])
    world.pass_time(60)
    assert world.retain() == 30
    rules.forget_consumer("archive", "visits")
    world.pass_time(60)
    assert world.retain() == 40
    assert rules.consumed("visits") == {"dashboard": [40]} or rules.consumed("visits") == {"dashboard": (40,)}


def test_an_owner_that_is_too_slow_for_its_rows_begins_again_from_its_newest_records(world):
    """Two nodes run the partition; one stands still while the other goes on and rows are trimmed."""
    world.site.retention().keep_input("visits", "2m")
    version = submit(JOB, world.site.ports("driver"))
    slow = world.start(version)
    world.pass_time(1200)
    (tasklet,) = slow.jobs[version.id].tasklets.values()
    read_to = tasklet.offset
    world.nodes.clear()
    other = world.start(version)
    world.pass_time(480)  # not so long that its name is forgotten
    assert world.retain() > read_to
    world.nodes.append(slow)
    slow.jobs[version.id].tasklets[0] = tasklet
    assert slow.jobs[version.id].tick(tasklet)
    assert not slow.jobs[version.id].tasklets
    world.pass_time(100)
    world.producer.mark(0, END.ts)
    world.pass_time(200, rows=False)
    assert (slow.failures, other.failures) == ({}, {})
    expected = run_oracle(JOB, {"visits": [[all_rows(world), END]]}, rows_per_call=10_000)
    assert world.rows(JOB.name) == expected["on_window"][0]


def test_outputs_go_by_age_and_the_job_is_finished_all_the_same(world):
    version = submit(JOB, world.site.ports("driver"))
    world.site.retention().keep_output(JOB.name, "10m")
    world.start(version)
    world.pass_time(1800)
    before = emitted(world.site, JOB.name)
    world.retain()
    outputs = emitted(world.site, JOB.name)
    assert 50 < outputs.count("on_window") <= 70
    assert outputs.start("on_window", 0) + outputs.count("on_window") == before.count("on_window") + before.start(
        "on_window", 0
    )
    if before.start("on_window", 0) < outputs.start("on_window", 0):
        with pytest.raises(RowsTrimmed, match="not kept any more"):
            list(before.batches("on_window", 0))
    world.producer.mark(0, END.ts)
    world.pass_time(100, rows=False)
    assert world.nodes[0].finished
    world.pass_time(1200, rows=False)
    world.retain()
    assert emitted(world.site, JOB.name).count("on_window") == 0
    world.nodes.clear()
    again = world.start(version)
    world.pass_time(200, rows=False)
    assert again.finished, "its outputs reach as far as it has emitted, though none of them are left"
    assert emitted(world.site, JOB.name).collected() == {"on_window": {}}


def test_the_journal_of_jobs_stays_short_and_late_readers_know_all_the_same(world):
    ports = world.site.ports("driver")
    submit(JOB, ports)
    early = Decisions(world.site.decisions())
    early.read()
    for number in range(300):
        stop(Stopped(f"lost-{number}", "Cancelled", "on request"), early)
    slow = Decisions(world.site.decisions())
    late = Decisions(world.site.decisions())
    late.read()
    retain(ports)
    journal = world.site.decisions()
    assert journal.end(0) - journal.start(0) < 5
    newer = h.job(Count(), h.Input("visits", disorder="1s"))
    submit(newer, ports, upgrade=True)
    for decisions in (early, late, slow, Decisions(world.site.decisions())):
        for _ in range(40):
            decisions.read()
        assert decisions.jobs.running(JOB.name).digest == newer.digest
        assert [version.digest for version in decisions.jobs.history(JOB.name)] == [JOB.digest, newer.digest]
    submit(newer, world.site.ports("driver-3"))
