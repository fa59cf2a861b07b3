"""What faults cost, reckoned on made-up runs."""

import numpy as np
import pytest

from holons_bench.latencies import figures, limit_s, quantile, recovery_s, sensitivity

DUE = np.arange(1, 101) / 10  # a window every 0.1 s, for ten seconds
CALM = np.full(100, 0.02)


def dented(*faults_s: float, outage_s: float = 1.0) -> np.ndarray:
    """Latencies if nothing is readable for a while after each fault."""
    late, due = CALM.copy(), DUE
    for fault_s in faults_s:
        hit = (due + 0.02 > fault_s) & (due < fault_s + outage_s)
        late[hit] = fault_s + outage_s - DUE[hit] + 0.02
    return late


def test_a_run_without_faults_has_no_cost():
    told = figures(DUE, DUE + CALM)
    assert told["windows"] == 100
    assert "recovery" not in told
    assert {round(told[name], 9) for name in ("average", "p50", "p99", "p99.9", "max")} == {0.02}


def test_quantiles_are_latencies_of_windows():
    late = np.arange(1, 1001) / 1000
    assert [quantile(late, share) for share in (0.5, 0.99, 0.999)] == [0.5, 0.99, 0.999]


def test_an_outage_is_recovered_from_when_its_last_window_is_out():
    late = dented(3.05)
    told = figures(DUE, DUE + late, [3.05], CALM)
    assert told["max"] == pytest.approx(0.97)
    assert told["recovery"] == pytest.approx(1.02)  # windows of 3.1 to 4.0 come out at 4.07
    assert told["sensitivity"] == pytest.approx(0.1 * sum(4.05 - due for due in DUE[30:40]))


def test_of_several_faults_the_slowest_recovery_counts():
    late = np.maximum(dented(2.05, outage_s=0.5), dented(6.05, outage_s=2.0))
    assert recovery_s(DUE, DUE + late, [6.05, 2.05], 0.05) == pytest.approx(2.02)
    assert recovery_s(DUE, DUE + dented(2.05, outage_s=0.5), [2.05, 6.05], 0.05) == pytest.approx(0.52)


def test_a_disturbance_long_after_the_fault_is_only_in_the_figure_for_good():
    late = dented(3.05)
    late[[44, 90]] = 0.5  # due at 4.5, soon after, and at 9.1
    told = figures(DUE, DUE + late, [3.05], CALM)
    assert told["recovery"] == pytest.approx(5.0 - 3.05)
    assert told["for_good"] == pytest.approx(9.6 - 3.05)


def test_a_window_that_was_due_before_the_fault_and_readable_after_counts():
    late = CALM.copy()
    late[29] = 1.0  # due at 3.0
    assert recovery_s(DUE, DUE + late, [3.01], 0.05) == pytest.approx(0.99)
    assert recovery_s(DUE, DUE + late, [4.5], 0.05) == 0.0


def test_what_happens_without_faults_is_no_disturbance():
    restless = CALM.copy()
    restless[50] = 0.5
    assert limit_s(CALM) == pytest.approx(0.04)
    assert limit_s(restless) == 0.5


def test_the_area_counts_from_the_first_fault_and_is_never_negative():
    late = dented(3.05)
    assert sensitivity(DUE, late, 5.0, 0.02) == pytest.approx(0.0)
    assert sensitivity(DUE, late, 3.05, 0.9) == 0.0
    assert sensitivity(DUE, late, 0.0, 0.02) == pytest.approx(sensitivity(DUE, late, 3.05, 0.02))
