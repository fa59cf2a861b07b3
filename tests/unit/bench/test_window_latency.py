"""Latency is measured from when an event was due, and only if every window is right."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from holons.errors import BadInput, InvariantBroken
from holons_bench import live, window_latency
from holons_bench.window_latency import SteadyLoad

LOAD = SteadyLoad(rate_per_s=20_000, partitions=2, seconds=0.1, window_us=10_000)


@pytest.mark.parametrize("rate_per_s", [1_000, 20_000])  # one row in each batch, and several
def test_what_is_expected_is_what_the_producer_writes(rate_per_s):
    load, best = replace(LOAD, rate_per_s=rate_per_s, seconds=1.0), {}
    for partition in range(load.partitions):
        for due_s, batch in load.batches(partition):
            assert batch["ts"][-1].as_py() == round(due_s * 1e6)
            for ts, price in zip(batch["ts"].to_pylist(), batch["price"].to_pylist(), strict=True):
                best[ts // load.window_us] = max(best.get(ts // load.window_us, 0), price)
    assert [best[window] for window in range(load.windows)] == [row["value"] for row in load.expected()]


def test_the_batch_with_a_window_s_last_event_also_seals_it():
    times = LOAD.times(10)
    assert times[-1] == LOAD.period_us
    assert (times[:-1] < LOAD.period_us).all()


def test_a_window_must_end_with_a_batch():
    with pytest.raises(BadInput, match="every 3000 us"):
        SteadyLoad(1_000, 1, 1.0, 10_000, 3_000)


def test_missing_or_wrong_windows_are_noticed():
    found = LOAD.expected()
    live.check("windows", found, LOAD.expected())
    wrong = [*found[:-1], found[-1] | {"value": found[-1]["value"] + 1}]
    for broken in (found[:-1], wrong, found[::-1]):
        with pytest.raises(InvariantBroken):
            live.check("windows", broken, LOAD.expected())


def test_a_whole_run_gives_flat_records_and_a_line_of_the_table():
    records = window_latency.run(0.5, rate_per_s=4_000, nodes=1, partitions=2, windows_us=[100_000], warm_up_s=0.2)
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    figures = {record["metric"]: record["value"] for record in records}
    assert figures["windows"] == 6  # of seven, the first one is warm-up
    assert 0 < figures["p50"] <= figures["max"]
    out = io.StringIO()
    window_latency.show(records, Console(file=out, width=200))
    assert records[0]["case"] in out.getvalue()
