"""Live inputs: partitions that are iterators, and rows that are read as they are emitted."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import holons as h
from holons.streams.segments.writer import OpenSegment

FRAMES = [pl.DataFrame({"ts": [at, at + 400_000], "n": [1, 2]}) for at in range(0, 3_000_000, 1_000_000)]
SUMS = h.source("rows", time="ts").window(h.Tumbling("1s")).agg(total=h.sum("n")).to("sums")


def live(frames: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield from frames


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "processes"])
def test_iterators_give_what_lists_give(tmp_path: Path, kept: bool):
    log = tmp_path / "site" if kept else None
    expected = h.run(SUMS, {"rows": [FRAMES, FRAMES[:1]]}, engine="embedded").wait().results()
    run = h.run(SUMS, {"rows": [live(FRAMES), FRAMES[:1]]}, engine="embedded", log=log).wait()
    assert run.results().rows() == expected.rows()
    assert run.progress.finished


def test_rows_are_followed_while_the_input_still_grows():
    more = threading.Event()

    def waits() -> Iterator[pl.DataFrame]:
        yield FRAMES[0]
        yield FRAMES[1]
        assert more.wait(60)
        yield FRAMES[2]

    rows = h.run(SUMS, {"rows": [waits()]}, engine="embedded").follow()
    assert next(rows)["total"] == 3  # the first window is complete, and the input has not ended
    more.set()
    assert [row["total"] for row in rows] == [3, 3]


@pytest.mark.parametrize("when", ["before it is written", "after it was written"])
def test_a_write_that_fails_is_tried_again_and_rows_are_there_once(tmp_path: Path, monkeypatch, caplog, when: str):
    publish, failures = OpenSegment.publish, iter([True, False] * 3)

    def fails(segment: OpenSegment) -> None:
        if "segment.feeder" not in str(segment.directory) or not next(failures, False):
            publish(segment)
            return
        if when == "after it was written":
            publish(segment)
        raise OSError(errno.ENOSPC, "No space left on device")

    expected = h.run(SUMS, {"rows": [FRAMES]}, engine="embedded").wait().results()
    monkeypatch.setattr(OpenSegment, "publish", fails)
    run = h.run(SUMS, {"rows": [live(FRAMES)]}, engine="embedded", log=tmp_path / "site")
    assert run.wait(60).results().rows() == expected.rows()
    assert "the disk is full" in caplog.text


def test_an_iterator_that_raises_fails_the_run_with_its_error():
    def breaks() -> Iterator[pl.DataFrame]:
        yield FRAMES[0]
        raise RuntimeError("the sensor is gone")

    run = h.run(SUMS, {"rows": [breaks()]}, engine="embedded")
    with pytest.raises(RuntimeError, match="the sensor is gone"):
        run.wait(60)
    with pytest.raises(RuntimeError, match="the sensor is gone"):
        list(run.follow())


def test_an_iterator_that_gives_no_table_fails_the_run_and_says_what_a_partition_is():
    run = h.run(SUMS, {"rows": [iter([FRAMES[0], "a,b,c"])]}, engine="embedded")  # type: ignore[list-item]
    with pytest.raises(h.HolonsError, match="holds a str"):
        run.wait(60)


def test_a_run_that_is_stopped_reads_no_more():
    asked, read = threading.Event(), []

    def endless() -> Iterator[pl.DataFrame]:
        for number in range(1_000_000):
            read.append(number)
            asked.set()
            yield FRAMES[0]

    with h.run(SUMS, {"rows": [endless()]}, engine="embedded"):
        assert asked.wait(60)
    for thread in threading.enumerate():
        if thread.name.startswith("holons feeds"):
            thread.join(60)
            assert not thread.is_alive()
    assert len(read) < 1_000_000


def test_a_channel_that_does_not_exist_is_an_error():
    run = h.run(SUMS, {"rows": [FRAMES]}, engine="embedded")
    with pytest.raises(h.HolonsError, match="no channel 'sum'"):
        list(run.follow("sum"))


def test_without_spark_or_java_nodes_are_embedded_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.warns(UserWarning, match=r"Java not installed.*engine=\"embedded\""):
        run = h.run(SUMS, {"rows": [FRAMES]})
    assert [row["total"] for row in run.wait().results().rows()] == [3, 3, 3]
    with pytest.raises(h.HolonsError, match="Java"):
        h.run(SUMS, {"rows": [FRAMES]}, engine="spark")
