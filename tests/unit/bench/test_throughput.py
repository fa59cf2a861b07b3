"""Both systems give what NumPy finds, or there is no figure."""

import io

import pytest
from rich.console import Console

from holons.engines.spark.session import session
from holons.errors import InvariantBroken
from holons_bench import throughput
from holons_bench.bids import Bids
from holons_bench.node import check
from holons_bench.stock.queries import Stock, tuned

pytestmark = pytest.mark.spark
BIDS = Bids(events=6_000, partitions=2, seconds=3, auctions=20)


def test_every_case_runs_on_both_systems_and_gives_flat_records():
    records = throughput.run(BIDS.events, seconds=3, times=2, repeat=1, nodes=2, partitions=2, auctions=20)
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    assert {record["case"] for record in records} == {case.name for case in throughput.CASES}
    assert {record["system"] for record in records} == {"holons", "spark"}
    assert all(record["value"] > 0 for record in records)
    out = io.StringIO()
    throughput.show(records, Console(file=out, width=200))
    assert all(record["case"] in out.getvalue() for record in records)


@pytest.mark.parametrize("case", throughput.CASES, ids=lambda case: case.query)
def test_a_wrong_result_of_stock_spark_is_noticed(case, tmp_path):
    BIDS.write_parquet(tmp_path / "bids")
    found = Stock(tuned(session(), 2), tmp_path / "bids").run(case.query, lambda work: work())
    expected = case.expected(BIDS.totals())
    assert found == expected
    assert list(tmp_path.iterdir()) == [tmp_path / "bids"]
    with pytest.raises(InvariantBroken, match="1 of"):
        check(case.name, found, expected | {max(expected): -1})


def test_ratios_are_of_medians_and_their_spread_is_the_worst_against_the_best():
    watches = {
        "spark": throughput.Stopwatch(1_000, [4.0, 5.0, 10.0], [8.0, 8.0, 8.0]),
        "holons": throughput.Stopwatch(2_000, [1.0, 2.0, 4.0], [2.0, 1.0, 4.0]),
    }
    told = {(one["system"], one["metric"]): one["value"] for one in throughput._records(throughput.CASES[0], watches)}
    assert told["holons", "ratio"] == (2_000 / 2.0) / (1_000 / 5.0)
    assert told["holons", "ratio_least"] == (2_000 / 4.0) / (1_000 / 4.0)
    assert told["holons", "ratio_most"] == (2_000 / 1.0) / (1_000 / 10.0)
    assert told["holons", "ratio_core"] == (2_000 / 2.0) / (1_000 / 8.0)
