"""The bench of count windows: rates change as they should, every scheme is compared, and every figure has a record."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from holons.errors import BadInput, InvariantBroken
from holons_bench import count, counting
from holons_bench.counting import SCHEMES, measure
from holons_bench.sensors import SensorTrace

TRACE = SensorTrace(partitions=3, window=6_000, windows=8, change=0.2, redraws=2)


def test_rates_are_drawn_anew_within_their_limits():
    sizes = []
    for rows in TRACE.rows:
        counts = np.bincount(rows.ts // 3_000, minlength=16)
        assert np.all(np.diff(rows.ts) >= 0)
        assert counts.min() >= 800
        assert counts.max() <= 1_200
        sizes.append(counts.tolist())
    assert len({tuple(counts) for counts in sizes}) == 3
    assert all(len(set(counts)) > 10 for counts in sizes)
    assert [rows.ts.tolist() for rows in replace(TRACE).rows] == [rows.ts.tolist() for rows in TRACE.rows]


def test_steps_have_all_rows_once():
    steps = list(TRACE.steps(500))
    assert max(rows.count for step in steps for rows in step) < 700
    for partition, rows in enumerate(TRACE.rows):
        assert np.array_equal(np.concatenate([step[partition].ts for step in steps]), rows.ts)


@pytest.mark.parametrize("floats", [False, True])
def test_every_scheme_gives_the_windows_of_central(floats):
    trace = replace(TRACE, floats=floats)
    exact = measure("central", trace, None)
    assert [sum(pane.ranks) for pane in exact.results] == list(range(6_000, trace.count + 1, 6_000))
    for scheme in SCHEMES:
        outcome = measure(scheme, trace, exact.results)
        assert (outcome.misplaced > 0) == (scheme == "approx")
        assert outcome.rows > 10_000


def test_a_scheme_that_gives_other_windows_is_not_measured():
    exact = measure("central", TRACE, None).results
    with pytest.raises(InvariantBroken, match="async gives other windows"):
        measure("async", TRACE, [*exact[:-1], exact[-1]._replace(ranks=(0, 0, 0))])


def test_what_is_sent_again_and_folded_again_is_counted():
    outcome = measure("async", replace(TRACE, change=0.5), None)
    assert outcome.corrections > 0
    assert outcome.traffic.recomputed > 0
    assert measure("central", TRACE, None).traffic.rows_again == 0
    assert measure("ruler", TRACE, None).traffic.rows_up == 0


def test_every_case_gives_flat_records_a_table_and_a_figure(monkeypatch):
    cases = [replace(case, trace=replace(TRACE, partitions=2)) for case in count.cases(quick=True)]
    one_of_each = list({case.figure: case for case in cases}.values())
    monkeypatch.setattr(count, "cases", lambda **_: one_of_each)
    records = count.run(quick=True, schemes=["async", "ruler"])
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    assert {record["case"].split(":")[0] for record in records} == {f"figure {number}" for number in (7, 8, 9, 10)}
    out = io.StringIO()
    count.show(records, Console(file=out, width=120))
    assert out.getvalue().count("ruler") == 4
    page = count.report(records).html()
    assert "Figure 7a" in page
    assert "Figure 10e" in page or "Figure 10f" in page


def test_figures_and_schemes_that_nobody_measures_are_refused():
    with pytest.raises(BadInput, match="figure that is measured"):
        count.run(figures=["12"])
    with pytest.raises(BadInput, match="scheme"):
        count.run(schemes=["median"])


def test_the_paper_s_figures_are_there_in_full():
    names = [case.name for case in count.cases()]
    assert len(names) == len(set(names))
    assert {"figure 9: 32 partitions", "figure 10: r = 100%, q = 10", "figure 10: L = 10,000, r = 50%"} <= set(names)
    assert counting.WINDOWS_BEFORE >= 5


@pytest.mark.parametrize(("change", "redraws"), [(0.01, 1), (0.01, 10), (0.5, 1)])
def test_cuts_that_can_be_predicted_take_no_second_round(change, redraws):
    trace = SensorTrace(partitions=8, window=20_000, windows=35, change=change, redraws=redraws)
    outcome = measure("ruler", trace, None)
    assert outcome.windows >= 29
    if change == 0.01:
        assert outcome.corrections <= outcome.windows // 10
    assert outcome.traffic.shared < 0.015 * outcome.windows * count.RAW_BYTES * trace.window
