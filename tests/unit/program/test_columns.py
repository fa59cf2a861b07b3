"""A job that names its columns: the program sees no others, and rows that are set aside are whole."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput, BadProgram
from holons.node import Node, submit
from holons.windows import END

SECOND = 1_000_000


class Seen(h.Program):
    """Puts out what it sees."""

    def process(self, events):
        self.output(events)


class Reads(h.Program):
    def __init__(self, name):
        self.name = name

    def process(self, events):
        self.output(events.select(self.name))


class OneByOne(h.Program):
    def each(self, event):
        self.output({"price": event["price"], "bidder": event["bidder"]})


def bids(*times):
    return pl.DataFrame(
        {"auction": [7] * len(times), "ts": list(times), "price": list(range(len(times))), "bidder": "ann"}
    )


def run(job, *logs):
    return h.run(job, {"bids": list(logs)}, engine="embedded").wait().results()


def test_a_program_sees_its_columns_and_the_time_in_the_rows_own_order():
    results = run(h.job(Seen(), "bids", columns=["price"]), bids(1, 2))
    assert results.rows("process") == [{"ts": 1, "price": 0}, {"ts": 2, "price": 1}]


def test_no_columns_at_all_leave_the_time():
    assert run(h.job(Seen(), "bids", columns=[]), bids(5)).rows("process") == [{"ts": 5}]


def test_late_and_dead_rows_are_whole():
    results = run(h.job(Seen(), "bids", columns=["price"]), bids(SECOND, None, 0, 2 * SECOND, 3, None))
    whole = {"auction": 7, "bidder": "ann"}
    assert [row["price"] for row in results.rows("process")] == [0, 3]
    assert results.rows("late") == [
        {"auction": 7, "ts": 0, "price": 2, "bidder": "ann", "_stream": "bids", "_offset": 2},
        {"auction": 7, "ts": 3, "price": 4, "bidder": "ann", "_stream": "bids", "_offset": 4},
    ]
    dead = results.rows("dead")
    assert [(row["_offset"], row["price"]) for row in dead] == [(1, 1), (5, 5)]
    assert all(row.items() >= whole.items() for row in dead)


@pytest.mark.parametrize("program", [Reads("bidder"), OneByOne()], ids=["process", "each"])
def test_other_columns_cannot_be_read(program):
    with pytest.raises(h.HolonsError, match="bidder"):
        run(h.job(program, "bids", columns=["price"]), bids(1))


@pytest.mark.parametrize("columns", [["price", "colour"], ["colour"]])
def test_a_missing_column_is_named_with_what_there_is(columns):
    with pytest.raises(BadInput, match=r"(?s)no column 'colour'.*auction, ts, price, bidder"):
        run(h.job(Seen(), "bids", columns=columns), bids(1))


def test_a_missing_time_column_is_named_with_what_there_is():
    with pytest.raises(BadInput, match=r"(?s)no time column 'when'.*auction, ts, price, bidder"):
        run(h.job(Seen(), "bids", time="when", columns=["price"]), bids(1))


def test_one_text_is_no_list_of_columns():
    with pytest.raises(BadProgram, match="price"):
        h.job(Seen(), "bids", columns="price")


def test_columns_count_in_the_digest_their_order_does_not():
    digests = [h.job(Seen(), "bids", columns=columns).digest for columns in (None, [], ["a", "b"], ["b", "a", "a"])]
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]


def test_an_input_travels():
    given = h.Input("bids", columns=["b", "a"])
    assert pickle.loads(pickle.dumps(given)) == given == h.Input("bids", columns=("a", "b"))
    assert given.reads == {"a", "b", "ts"}


def test_a_node_over_a_log_on_disk_puts_whole_late_rows_out(tmp_path):
    """Large values, of which only some columns are read, and one row in ten thousand is late."""
    length = 50_000
    times = np.arange(length)
    times[9_999::10_000] -= 100
    rng = np.random.default_rng(1)
    rows = pa.record_batch({"ts": times, "price": rng.integers(0, 9, length), "bidder": rng.integers(0, 99, length)})
    site = DirectorySite(tmp_path)
    site.load({"bids": [[rows, END]]})
    job, ports = h.job(Seen(), "bids", columns=["price"]), site.ports("node#1")
    node = Node("node#1", ports)
    node.add_job(submit(job, ports).id, job)
    while not node.finished:
        node.tick()
        assert not node.failures
    late = times < np.maximum.accumulate(times)
    expected = pl.DataFrame(pl.from_arrow(rows)).with_row_index("_offset").filter(late)
    found = site.collected(job.name)
    assert [row["_offset"] for row in found["late"][0]] == np.flatnonzero(late).tolist()
    assert pl.DataFrame(found["late"][0]).select(rows.schema.names).equals(expected.select(rows.schema.names))
    assert found["process"][0][0].keys() == {"ts", "price"}
    assert len(found["process"][0]) == length - late.sum()
