"""Storms, in short; and their judge, who must be able to find something."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from tests.storms.judging import check_input, differences, expected, noted
from tests.storms.market import BATCH_ROWS_MAX, STREAM, Batch, job, row_number
from tests.storms.storm import Storm

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.windows import END

SEED, PARTITIONS = 5, 2


class Judged:
    """A site with some batches in it, notes of them, and what a job gives."""

    def __init__(self, directory: Path) -> None:
        self.site = DirectorySite(directory / "site")
        self.notes = directory / "producer-1"
        lines, now = [], time.time_ns() // 1_000
        with self.site.producer(STREAM, PARTITIONS, "producer-1") as log:
            for number in range(40):
                partition = number % PARTITIONS
                batch = Batch(SEED, 1, number, partition, now + number * 100_000, 30)
                offset = log.append(partition, batch.record_batch())
                lines += [f"begin {number} {partition} {batch.at} 30 {offset}"]
                lines += [f"acknowledged {number} {partition} {offset}"]
            for partition in range(PARTITIONS):
                log.mark(partition, END.ts)
        self.notes.write_text("\n".join(lines))

    def batches(self):
        return noted(self.notes.parent, SEED)

    def input(self):
        return self.site.input(STREAM, "judge")


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Judged:
    return Judged(tmp_path_factory.mktemp("judged"))


def test_the_judge_agrees_with_a_run_to_which_nothing_happened(judged):
    results = h.run(job(0), log=judged.site.directory, engine="embedded").wait().results()
    check_input(judged.input(), judged.batches())
    wanted = expected(judged.input(), judged.batches())
    assert all(map(len, wanted.values())), "there is something to be judged in each channel"
    found = {channel: results.to_polars(channel) for channel in wanted}
    assert list(differences(found, wanted, may_repeat=False)) == []
    for channel, rows in wanted.items():
        assert wrong(wanted, channel, rows.slice(1)), "a row is missing"
        assert wrong(wanted, channel, pl.concat([rows, rows.head(1)])), "a row is there twice"
        assert wrong(wanted, channel, pl.concat([rows.slice(1), rows.head(1)])), "rows are out of order"
        assert not list(differences({**wanted, channel: pl.concat([rows, rows])}, wanted, may_repeat=True))


def wrong(wanted, channel, rows) -> bool:
    return bool(list(differences({**wanted, channel: rows}, wanted, may_repeat=False)))


def never_appended(batches):
    (first_row, note), *_ = batches.items()
    batches[first_row + 39 * BATCH_ROWS_MAX * PARTITIONS] = note


def not_acknowledged(batches):
    for note in batches.values():
        note.acknowledged = False


def other_rows(batches):
    note = batches[row_number(1, 7)]
    note.batch = note.batch._replace(at=note.batch.at + 1)


def another_partition(batches):
    note = batches[row_number(1, 7)]
    note.batch = note.batch._replace(partition=0)


def elsewhere(batches):
    batches[row_number(1, 7)].offset += 1


@pytest.mark.parametrize(
    ("planted", "error"),
    [
        (never_appended, "acknowledged batches are missing"),
        (not_acknowledged, "refused rows"),
        (other_rows, "other rows"),
        (another_partition, "another partition"),
        (elsewhere, "or elsewhere"),
    ],
)
def test_the_judge_finds_rows_that_are_not_as_they_should_be(judged, planted, error):
    batches = judged.batches()
    check_input(judged.input(), batches)
    planted(batches)
    with pytest.raises(AssertionError, match=error):
        check_input(judged.input(), batches)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_short_storm(tmp_path, seed):
    Storm(seed, 20.0, tmp_path).run()
