"""What failures cost: scenarios, comparison with the calm run, and that wrong windows are noticed."""

import io

import numpy as np
import pytest
from rich.console import Console

from holons.errors import InvariantBroken
from holons_bench import live, recovery
from holons_bench.chronicle import Chronicle, Happened, Heard
from holons_bench.recovery import RecoveryPlan
from holons_bench.stock.recovery import script

DUE = np.arange(1, 201) / 10
ROWS = [{"window": 100_000 * number, "price": number} for number in range(200)]


def made_up(late_s: float = 0.02, fault_s: float | None = None, outage_s: float = 1.0) -> Chronicle:
    late = np.full(200, late_s)
    happened, due = [], DUE
    if fault_s is not None:
        hit = (due > fault_s) & (due < fault_s + outage_s)
        late[hit] += fault_s + outage_s - due[hit]
        happened = [Happened(fault_s, "killed", "node-2#x", 7), Happened(fault_s + 9, "started", "node-6#x")]
    late[:20] = 5.0  # before it is warm
    heard = [Heard(float(at_s), "node-1#x", 1, (0,)) for at_s in DUE]
    return Chronicle(DUE, DUE + late, list(ROWS), heard, happened)


@pytest.fixture
def runs() -> recovery.Runs:
    ways = {"one owner": (0.02, 1.0), "replicas=2": (0.1, 0.0)}
    calm = {"no failure": {way: made_up(late_s) for way, (late_s, _) in ways.items()}}
    return calm | {
        name: {way: made_up(late_s, 10.05, outage_s) for way, (late_s, outage_s) in ways.items()}
        for name in list(recovery.scenarios(10.05))[1:]
    }


def test_two_nodes_are_killed_together_apart_or_for_good_and_one_is_stopped():
    found = recovery.scenarios(20.0)
    assert next(iter(found)) == "no failure"
    assert not found["no failure"]
    assert [(one.at_s, one.back_s) for one in found["two killed together"]] == [(20.0, 10.0), (20.0, 10.0)]
    assert [(one.at_s, one.back_s) for one in found["two killed 5 s apart"]] == [(20.0, 10.0), (25.0, 10.0)]
    assert [(one.at_s, one.back_s) for one in found["two killed for good"]] == [(20.0, None), (20.0, None)]
    assert [(one.what, one.back_s) for one in found["one stopped for 10 s"]] == [("pause", 10.0)]
    for faults in found.values():
        assert len({one.node for one in faults}) == len(faults)


def test_faults_are_compared_with_the_calm_run_of_the_same_way(runs):
    found = {(one["case"], one["metric"]): one["value"] for one in recovery.records(runs)}
    assert found["no failure, one owner", "max"] == pytest.approx(0.02)  # what came before it was warm does not count
    assert ("no failure, one owner", "recovery") not in found
    assert found["two killed together, one owner", "recovery"] == pytest.approx(1.02)
    assert found["two killed together, one owner", "sensitivity"] == pytest.approx(0.5, abs=0.06)
    assert found["two killed together, replicas=2", "recovery"] == 0.0
    assert found["two killed together, replicas=2", "sensitivity"] == pytest.approx(0.0)


def test_records_are_flat_and_shown(runs):
    records = recovery.records(runs)
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    out = io.StringIO()
    recovery.show(records, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert sum("  one owner" in line or "  replicas=2" in line for line in lines) == 10
    assert all(any(f"│ {scenario} " in line for line in lines) for scenario in runs), "no word is cut at 80 columns"


def test_the_page_has_a_curve_for_each_run(runs):
    page = recovery.report(RecoveryPlan(), runs, recovery.records(runs)).html()
    for scenario in runs:
        assert f"{scenario}: one owner" in page
    assert page.count("Plotly.newPlot") == 3


def test_stock_spark_stands_beside_and_is_compared_with_its_own_calm_run(runs):
    stock = {
        name: {recovery.STOCK: made_up(1.0, None if name == "no failure" else 10.05, 4.0)}
        for name in recovery.scenarios(10.05)
    }
    both = recovery.beside(runs, stock)
    found = {(one["system"], one["case"], one["metric"]): one["value"] for one in recovery.records(both)}
    assert found["spark", "no failure", "max"] == pytest.approx(1.0)
    assert found["spark", "two killed together", "max"] == pytest.approx(4.95)
    assert found["spark", "two killed together", "recovery"] == pytest.approx(5.0, abs=0.5)
    assert found["holons", "two killed together, one owner", "recovery"] == pytest.approx(1.02)
    page = recovery.report(RecoveryPlan(), both, recovery.records(both)).html()
    assert f"two killed together: {recovery.STOCK}" in page


def test_every_scenario_is_one_of_stock_spark_too():
    for scenario in recovery.scenarios(10.0):
        assert isinstance(script(scenario, 10.0), list)


def test_wrong_windows_are_noticed():
    run = made_up()
    live.check("calm", run.rows, ROWS)
    run.rows[7] = run.rows[7] | {"price": -1}
    with pytest.raises(InvariantBroken, match="1 windows are wrong, the first is number 7"):
        live.check("calm", run.rows, ROWS)


def test_every_scenario_runs_in_every_way(monkeypatch):
    seen = []

    def stand_in(job, load, setting, faults):
        seen.append((setting.settings.replicas, setting.settings.failure_timeout_s, len(faults)))
        return Chronicle(np.empty(0), np.empty(0), recovery.highest_bids(load)[: load.windows])

    monkeypatch.setattr(live, "run", stand_in)
    plan = RecoveryPlan(seconds=1, rate=100, partitions=1, window_ms=1_000, failure_timeout_s=0.3)
    told = []
    runs = recovery.run(plan, told.append)
    assert seen == [(replicas, 0.3, faults) for faults in (0, 2, 2, 2, 1) for replicas in (1, 2)]
    assert len(told) == 10
    assert list(runs) == list(recovery.scenarios(0.0))


def test_two_nodes_killed_and_back_and_one_paused_in_a_real_run():
    plan = RecoveryPlan(seconds=1, nodes=3, partitions=3, rate=1_000, window_ms=500, spark=False)
    load = recovery.PacedBids(1_000, 3, 7.0, 500_000, 100_000)
    job = recovery.h.job(recovery.highest_bid(load.window_us), "bids", time="date_time")
    faults = [
        live.NodeFault(2.0, 1, "remove", 1.5),
        live.NodeFault(2.0, 2, "remove"),
        live.NodeFault(5.0, 0, "pause", 0.3),
    ]
    run = live.run(job, load, plan.setting(1), faults)
    live.check("all at once", run.rows, recovery.highest_bids(load)[: load.windows])
    assert [one.what for one in run.happened] == ["killed", "killed", "started", "paused", "resumed"]
    started = next(one.node for one in run.happened if one.what == "started")
    assert started in run.came_up_s() or run.readable_s[-1] < 10
    assert {one.node for one in run.spells() if one.from_s > 2.5} <= {started, run.happened[-1].node}


def test_a_node_that_dies_before_the_load_begins_is_replaced(monkeypatch):
    spread = live._wait_until_spread

    def kill_one_first(driver, *given):
        process = next(iter(driver.running.values()))
        process.kill()
        process.join(10.0)
        return spread(driver, *given)

    monkeypatch.setattr(live, "_wait_until_spread", kill_one_first)
    plan = RecoveryPlan(seconds=1, nodes=2, partitions=2, rate=1_000, window_ms=500, spark=False)
    load = recovery.PacedBids(1_000, 2, 1.0, 500_000, 100_000)
    job = recovery.h.job(recovery.highest_bid(load.window_us), "bids", time="date_time")
    run = live.run(job, load, plan.setting(1))
    live.check("one dead before", run.rows, recovery.highest_bids(load)[: load.windows])
    assert {one.node.partition("#")[0] for one in run.heard if one.at_s > 0} == {"node-2", "node-3"}
