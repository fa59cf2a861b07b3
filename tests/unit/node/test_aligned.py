"""Reads fall into step with a log's values, whatever size they began with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holons.node.partition import aligned
from holons.streams import StreamFolder


def lengths(directory, batches: list[int], sizes: list[int]) -> list[list[int]]:
    """What is taken of a log of such batches by reads that ask for so many rows; the last size is kept."""
    taken, at, end = [], 0, sum(batches)
    with StreamFolder(directory).open("in", 1, "writer") as log:
        for rows in batches:
            log.append(0, pa.record_batch({"n": np.arange(rows)}))
        while at < end:
            size = sizes[min(len(taken), len(sizes) - 1)]
            chunks = aligned(log.read(0, at, size))
            taken.append([chunk.length for chunk in chunks])
            at += sum(taken[-1])
    return taken


def test_reads_that_grew_fall_into_step(tmp_path):
    taken = lengths(tmp_path, [100] * 6, [30, 60, 100])
    assert taken == [[30], [60], [10], [100], [100], [100], [100], [100]]


def test_a_read_takes_as_many_whole_values_as_it_may(tmp_path):
    assert lengths(tmp_path, [100, 90] * 3, [200]) == [[100, 90]] * 3
    assert lengths(tmp_path / "other", [100] * 4, [200]) == [[100, 100]] * 2
    assert lengths(tmp_path / "exactly", [110, 90] * 3, [200]) == [[110, 90]] * 3
    assert lengths(tmp_path / "across", [110, 90] * 3, [60, 200]) == [[60], [50, 90], [110, 90], [110, 90]]


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_everything_is_taken_whatever_the_size(tmp_path, size):
    batches = [1, 1, 5, 100, 3, 64, 1]
    assert sum(map(sum, lengths(tmp_path, batches, [size]))) == sum(batches)
