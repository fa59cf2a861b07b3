"""What latencies say: figures of one run, and what faults cost compared with a run that had none.

A run is two columns: when each window was due, and when its result was readable, in seconds since the load began. Every
window counts in full, whoever was late (no coordinated omission). Quantiles are exact: each is the latency of a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
UNITS: Final = {"windows": "windows", "sensitivity": "s²"}
"""Of the figures; seconds, if it is not here."""
_RECOVERED: Final = 2.0
"""Latency is back to normal within so many times the 99th percentile of the run without faults."""


_CALM_S: Final = 2.0
"""After so long without a disturbed window, latency is back to normal."""


def figures(
    due_s: np.ndarray, readable_s: np.ndarray, faults_s: Sequence[float] = (), baseline: np.ndarray | None = None
) -> dict[str, float]:
    """Returns the figures of one run; with the latencies of a run without faults (`baseline`), also what the faults cost.

    >>> due = np.arange(10.0)
    >>> values = figures(due, due + [.1, .1, .1, .1, 2.1, 1.1, .1, .1, .1, .1], [3.5], np.full(10, 0.1))
    >>> {name: round(value, 3) for name, value in values.items() if not name.startswith("p")}
    {'average': 0.4, 'max': 2.1, 'windows': 10.0, 'recovery': 2.6, 'for_good': 2.6, 'sensitivity': 3.0}
    """
    late_s = readable_s - due_s
    values = {
        "average": float(late_s.mean()),
        **{name: quantile(late_s, share) for name, share in QUANTILES.items()},
        "max": float(late_s.max()),
        "windows": float(len(late_s)),
    }
    if baseline is not None and len(faults_s):
        values["recovery"] = recovery_s(due_s, readable_s, faults_s, limit_s(baseline), _CALM_S)
        values["for_good"] = recovery_s(due_s, readable_s, faults_s, limit_s(baseline))
        values["sensitivity"] = sensitivity(due_s, late_s, min(faults_s), float(baseline.mean()))
    return values


def quantile(late_s: np.ndarray, share: float) -> float:
    """Returns the least latency that so large a share of the windows does not exceed."""
    return float(np.quantile(late_s, share, method="inverted_cdf"))


def limit_s(baseline: np.ndarray) -> float:
    """Returns the latency above which a window is disturbed: twice the 99th percentile without faults, or their maximum."""
    return max(_RECOVERED * quantile(baseline, 0.99), float(baseline.max()))


def recovery_s(
    due_s: np.ndarray, readable_s: np.ndarray, faults_s: Sequence[float], limit_s: float, calm_s: float = np.inf
) -> float:
    """Returns the time from a fault until the last window that it disturbed was readable; of several faults, the longest.

    A window belongs to a fault if it was readable after it, and due before the next one. What comes after `calm_s`
    without a disturbed window is not the fault's doing any more; by default everything is: recovered for good.
    """
    disturbed = readable_s - due_s > limit_s
    worst_s, begins_s = 0.0, sorted(faults_s)
    for begin_s, next_s in zip(begins_s, [*begins_s[1:], np.inf], strict=True):
        hit, end_s = disturbed & (readable_s > begin_s) & (due_s < next_s), begin_s
        for due, readable in zip(due_s[hit].tolist(), readable_s[hit].tolist(), strict=True):
            if due > end_s + calm_s:
                break
            end_s = max(end_s, readable)
        worst_s = max(worst_s, end_s - begin_s)
    return worst_s


def sensitivity(due_s: np.ndarray, late_s: np.ndarray, since_s: float, normal_s: float) -> float:
    """Returns the area between the latency curve and the average without faults, from the first fault on; at least 0.

    A window stands for the time since the one before was due.
    """
    width_s = np.diff(due_s, prepend=due_s[0] - (due_s[1] - due_s[0]) if len(due_s) > 1 else due_s[0])
    after = due_s + late_s > since_s
    return max(0.0, float(((late_s - normal_s) * width_s)[after].sum()))
