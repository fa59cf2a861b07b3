"""What bids must give is found in another way than DuckDB finds it, and is the same."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from holons_bench.bids import SECOND_US, Bids

BIDS = Bids(events=30_000, partitions=3, seconds=14, auctions=50)


@pytest.fixture
def ask(tmp_path):
    BIDS.write_files(tmp_path / "bids", 10_000)
    source = f"(SELECT *, epoch_us(ts) // {SECOND_US} AS second FROM '{tmp_path}/bids/*.parquet')"
    return lambda query: duckdb.sql(query.replace("BIDS", source)).fetchall()


def test_totals_agree_with_duckdb(ask):
    totals = BIDS.totals()
    highest = ask("SELECT second, max(price) FROM BIDS GROUP BY 1")
    assert totals.highest() == {(second, 0): price for second, price in highest}
    averages = ask("SELECT second, category, sum(price)::DOUBLE / count(*) FROM BIDS GROUP BY 1, 2")
    assert totals.averages() == {(second, category): price for second, category, price in averages}
    counts = ask("SELECT second, auction, count(*) FROM BIDS GROUP BY 1, 2")
    assert totals.counts() == {(second, auction): count for second, auction, count in counts}


def test_more_seconds_begin_alike_and_partitions_differ():
    longer = Bids(events=60_000, partitions=3, seconds=28, auctions=50)
    whole = [pa.concat_batches([pa.record_batch(one) for one in longer.batches(number)]) for number in range(3)]
    for number in range(3):
        (first,) = BIDS.batches(number)
        assert np.array_equal(whole[number]["ts"][:10_000].to_numpy(), first["ts"])
    prices = [next(BIDS.batches(number))["price"].tolist() for number in range(3)]
    assert len(set(map(tuple, prices))) == 3
