"""Producers: every batch once, at its place, however often they are run; errors reach whoever waits."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from holons.clock import SystemClock
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.producers import ProcessProducers
from holons.engines.producers import Producers, produce
from holons.errors import ProducerFailed
from holons.windows import ENDING


@dataclass(frozen=True)
class Numbers:
    """Ten batches of three numbers for each partition."""

    partitions: int = 3
    period_s: float = 0.01
    fails_at: int = 10

    def batches(self, partition: int):
        for number in range(10):
            if number == self.fails_at:
                raise ValueError("no more numbers")
            rows = [100 * partition + 3 * number + place for place in range(3)]
            yield (number + 1) * self.period_s, pa.record_batch({"n": rows})


class Here(Producers):
    """Nothing is launched: the test runs the tasks itself."""

    def launch(self, tasks):
        return [_Alive()]


class _Alive:
    def alive(self) -> bool:
        return True

    def join(self, timeout_s: float) -> None:
        pass

    kill = join


@pytest.fixture
def opened(site, monkeypatch) -> list[object]:
    """Every shared stream that is opened, kept: a producer closes its own, and leaves that to no garbage collector."""
    opened: list[object] = []
    shared = site.shared
    monkeypatch.setattr(site, "shared", lambda *names: opened.append(shared(*names)) or opened[-1])
    return opened


@pytest.fixture
def site(tmp_path) -> DirectorySite:
    site = DirectorySite(tmp_path)
    site.create("numbers", 3)
    return site


def written(site: DirectorySite) -> list[tuple[list[int], list[int]]]:
    """Each partition's rows, and its marks."""
    with site.producer("numbers", 3, "reader") as log:
        chunks = [log.read(partition, 0, log.end(partition)) for partition in range(3)]
    rows = [[n for chunk in part if chunk.rows is not None for n in chunk.rows["n"].to_pylist()] for part in chunks]
    marks = [[chunk.mark for chunk in part if chunk.mark is not None] for part in chunks]
    return list(zip(rows, marks, strict=True))


def check(site: DirectorySite) -> None:
    for partition, (rows, marks) in enumerate(written(site)):
        assert rows == list(range(100 * partition, 100 * partition + 30))
        assert marks[-1] == ENDING
        assert len(marks) == 1 + (partition == 0)  # the mark that made the stream


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_processes_write_every_batch_and_end_the_stream(site, tasks):
    with ProcessProducers(site, "numbers", Numbers(), tasks=tasks) as producers:
        assert len(producers.tasks) == min(tasks, 3)
        start_s = producers.begin()
        told = producers.wait(600)
        assert SystemClock().now_s() >= start_s + 0.1
    assert sum(one.rows for one in told) == 90
    assert all(one.lags_s and max(one.lags_s) >= 0 for one in told)
    check(site)


def test_a_producer_that_is_run_again_goes_on_where_it_was(site):
    died = Here(site, "numbers", Numbers(fails_at=4))
    died._ready.update(task.writer for task in died.tasks)
    died.begin()
    produce(died.tasks[0], lambda: True)
    assert 0 < sum(len(rows) for rows, _ in written(site)) < 90
    again = Here(site, "numbers", Numbers())
    again._ready.update(task.writer for task in again.tasks)
    again.begin()
    for attempt in range(2):  # the second time everything is there
        produce(again.tasks[0], lambda: True, attempt=attempt)
        check(site)
    assert again.wait(1.0)[0].rows == 90


@pytest.mark.usefixtures("opened")
def test_a_producer_that_nobody_wants_ends(site):
    producers = Here(site, "numbers", Numbers(period_s=1e6))
    producers._ready.update(task.writer for task in producers.tasks)
    produce(producers.tasks[0], lambda: False)
    producers.begin()
    left = iter([True, False])
    produce(producers.tasks[0], lambda: next(left))
    assert producers.ended() is None


def test_without_pace_nobody_waits(site):
    producers = Here(site, "numbers", Numbers(period_s=1e6))
    producers._ready.update(task.writer for task in producers.tasks)
    producers.begin(paced=False)
    produce(producers.tasks[0], lambda: True)
    (told,) = producers.wait(1.0)
    assert (told.rows, told.lags_s) == (90, ())
    check(site)


def test_a_feed_that_raises_is_told_to_whoever_waits(site):
    with ProcessProducers(site, "numbers", Numbers(fails_at=4)) as producers:
        producers.begin()
        with pytest.raises(ProducerFailed, match="ValueError: no more numbers"):
            producers.wait(600)


def test_producers_that_are_gone_are_missed(site):
    with ProcessProducers(site, "numbers", Numbers(period_s=10.0)) as producers:
        producers.begin()
        for process in producers._running:
            process.kill()
            process.join(10.0)
        with pytest.raises(ProducerFailed, match="ended before everything"):
            producers.wait(600)


def test_other_rows_at_the_same_place_are_refused(site):
    with site.producer("numbers", 3, "stranger") as log:
        log.append(0, pa.record_batch({"n": [7]}))
    producers = Here(site, "numbers", Numbers())
    producers._ready.update(task.writer for task in producers.tasks)
    producers.begin()
    produce(producers.tasks[0], lambda: True)
    with pytest.raises(ProducerFailed, match="position is identity"):
        producers.wait(1.0)


def test_producers_that_do_not_come_up_are_missed(site):
    with pytest.raises(ProducerFailed, match="0 of 1 producers"):
        Here(site, "numbers", Numbers()).begin(timeout_s=0.0)
