"""What is decided about jobs is decided once: whoever comes at the same moment finds out, and nobody is half done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.handles import Count

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.errors import BadInput, JobRunning
from holons.node import Decisions, Ports, Site, Stopped, Submitted, cancel, submit
from holons.node.jobs import stop

OLD = h.job(Count(), "visits")


class CountAgain(Count):
    """The same rows from other code."""

    again = True


NEW = h.job(CountAgain(), "visits", name=OLD.name)


@pytest.fixture(params=["memory", "directory"])
def site(request, tmp_path) -> Site:
    site = MemorySite() if request.param == "memory" else DirectorySite(tmp_path)
    site.create("visits", 2)
    return site


def meanwhile(ports: Ports, act: Callable[[], object]) -> Ports:
    """Ports whose owner looks at the inputs, having looked at the jobs, and then somebody else is faster."""
    waiting = [act]

    def look(stream: str):
        if waiting:
            waiting.pop()()
        return ports.input(stream)

    return replace(ports, input=look)


def test_of_two_jobs_that_are_submitted_at_the_same_moment_one_is_refused(site):
    slower = meanwhile(site.ports("driver-1"), lambda: submit(OLD, site.ports("driver-2")))
    with pytest.raises(JobRunning, match="with other code"):
        submit(NEW, slower)
    assert [version.digest for version in site.jobs().versions.values()] == [OLD.digest]


def test_the_same_job_submitted_twice_at_the_same_moment_is_one_version(site):
    versions: list[Submitted] = []
    slower = meanwhile(site.ports("driver-1"), lambda: versions.append(submit(OLD, site.ports("driver-2"))))
    versions.append(submit(OLD, slower))
    assert versions[0] == versions[1]
    assert list(site.jobs().versions) == [versions[0].id]


def test_of_two_upgrades_at_the_same_moment_the_slower_one_takes_over_from_the_faster_one(site):
    submit(OLD, site.ports("driver-0"))
    other = h.job(Count(), h.Input("visits", disorder="1s"))
    slower = meanwhile(site.ports("driver-1"), lambda: submit(other, site.ports("driver-2"), upgrade=True))
    last = submit(NEW, slower, upgrade=True)
    jobs = site.jobs()
    assert [version.digest for version in jobs.history(OLD.name)] == [OLD.digest, other.digest, NEW.digest]
    assert jobs.running(OLD.name) == last
    assert {stopped.kind for stopped in jobs.stopped.values()} == {"Upgraded"}


def test_a_job_that_is_cancelled_while_it_is_upgraded_begins_anew(site):
    submit(OLD, site.ports("driver-0"))
    slower = meanwhile(site.ports("driver-1"), lambda: cancel(OLD.name, site.ports("driver-2")))
    version = submit(NEW, slower, upgrade=True)
    assert (version.generation, version.after, version.cuts) == (1, "", ())


def test_an_upgrade_is_one_decision_and_says_who_took_over(site):
    old = submit(OLD, site.ports("driver-1"))
    decisions = Decisions(site.decisions())
    assert decisions.read()
    new = submit(NEW, site.ports("driver-2"), upgrade=True)
    assert decisions.jobs.running(OLD.name) == old
    assert decisions.read()
    assert not decisions.read()
    assert decisions.jobs.running(OLD.name) == new
    assert decisions.jobs.stopped[old.id].reason == f"{new.id} takes over, submitted by driver-2"


def test_what_a_version_emitted_stands_for_itself_and_for_its_name(site):
    old, new = submit(OLD, site.ports("driver-1")), submit(NEW, site.ports("driver-2"), upgrade=True)
    jobs = site.jobs()
    assert jobs.history(OLD.name) == [old, new]
    assert jobs.history(old.id) == [old]
    assert jobs.history("nobody") == []


def test_a_version_is_stopped_once_for_its_first_reason(site):
    version = submit(OLD, site.ports("driver-1"))
    first, second = Decisions(site.decisions()), Decisions(site.decisions())
    for decisions in (first, second):
        decisions.read()
    stop(Stopped(version.id, "Poison", "it kills"), first)
    stop(Stopped(version.id, "CheckpointLost", "it is gone"), second)
    assert site.jobs().stopped[version.id].kind == "Poison"
    assert second.jobs.stopped == first.jobs.stopped
    assert submit(OLD, site.ports("driver-2")).generation == 1, "its name is free"


def test_a_job_is_cancelled_once(site):
    version = submit(OLD, site.ports("driver-1"))
    assert cancel(OLD.name, site.ports("driver-2")) == version
    with pytest.raises(BadInput, match="running: none"):
        cancel(OLD.name, site.ports("driver-3"))
