"""A steady load: every bid once, at its time, and windows sealed by the batch that is due when they end."""

import numpy as np
import pyarrow as pa
import pytest

import holons as h
from holons.errors import BadInput
from holons.nexmark import PacedBids, bid_ids, bids, highest_bid, highest_bids
from holons.semantics import run as run_oracle
from holons.windows import END

LOADS = [
    PacedBids(20_000, 3, 0.5, window_us=100_000, period_us=10_000),
    PacedBids(50, 4, 2.0, window_us=1_000_000, period_us=500_000, seed=5),  # few bids in each batch
    PacedBids(997, 1, 1.0, window_us=50_000, period_us=50_000),
]


def times(batch) -> np.ndarray:
    return batch["date_time"].cast("int64").to_numpy()


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_partitions_share_all_bids_and_none_comes_twice(load):
    found = np.sort(np.concatenate([load.ids(partition, 0, load.batch_count) for partition in range(load.partitions)]))
    beyond = load.windows * load.window_us * load.rate // 1_000_000
    assert (np.diff(found) > 0).all()
    wanted = bid_ids(np.arange(len(found) + load.partitions))
    assert set(wanted[wanted < beyond]) <= set(found)


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_each_batch_holds_what_happened_since_the_one_before_and_the_first_bid_beyond(load):
    for partition in range(load.partitions):
        ids = [load.ids(partition, number) for number in range(load.batch_count)]
        assert np.array_equal(np.concatenate(ids), load.ids(partition, 0, load.batch_count))
        for (due_s, batch), mine in zip(load.batches(partition), ids, strict=True):
            assert batch == bids(mine, rate=load.rate, seed=load.seed, columns=load.columns)
            if len(mine):
                assert times(batch)[-1] >= round(due_s * 1e6)
                assert (times(batch)[:-1] < round(due_s * 1e6)).all()


def test_a_load_that_makes_no_sense_is_refused():
    with pytest.raises(BadInput, match="every 300000 us"):
        PacedBids(100, 1, 5.0, period_us=300_000)
    with pytest.raises(BadInput, match="less than a window"):
        PacedBids(100, 1, 0.5)


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_the_highest_bid_is_what_both_oracles_say(load):
    parts = [[batch for _, batch in load.batches(partition)] for partition in range(load.partitions)]
    job = h.job(highest_bid(load.window_us), "bids", time="date_time")
    expected = highest_bids(load)
    assert len(expected) >= load.windows
    assert h.run(job, {"bids": parts}, engine="embedded").wait().results().rows() == expected
    rows = run_oracle(job, {"bids": [[*part, END] for part in parts]}, rows_per_call=5_000)["on_window"]
    assert [row for part in rows.values() for row in part] == expected
    frame = {row["window"] // load.window_us: row["price"] for row in expected}
    for part in parts:
        for batch in part:
            for ts, price in zip(times(batch).tolist(), batch["price"].to_pylist(), strict=True):
                assert price <= frame[ts // load.window_us]


@pytest.mark.parametrize("load", [LOADS[0], PacedBids(3_000_000, 3, 0.03, 10_000, 10_000)])  # some at the same instant
def test_of_equal_prices_the_first_bid_wins(load, monkeypatch):
    def equal(self: PacedBids, ids: np.ndarray) -> pa.RecordBatch:
        return bids(ids, rate=self.rate).set_column(2, "price", pa.array(np.full(len(ids), 5)))

    monkeypatch.setattr(PacedBids, "batch", equal)
    first = np.array([row["date_time"] - row["window"] for row in highest_bids(load)])
    assert (first <= 5 * 1_000_000 // load.rate).all()  # before the first bid of a window there are four other events
    parts = [[batch for _, batch in load.batches(partition)] for partition in range(load.partitions)]
    job = h.job(highest_bid(load.window_us), "bids", time="date_time")
    assert h.run(job, {"bids": parts}, engine="embedded").wait().results().rows() == highest_bids(load)
