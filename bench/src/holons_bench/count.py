"""Count windows in every scheme over the same rows: the figures of Deco's paper that one process can give.

Each run's windows are compared with those of `central`, cut for cut and byte for byte; `approx` is wrong, and by how much is
one of its figures. Rates are rows per second of CPU time, so they hold also where a machine does other things beside. The
first windows of a run do not count: nothing is predicted there, and all rows are sent.

Schemes on nodes (`ruler`, and `central` as rows to one partition) are measured apart: see `NODE_SYSTEMS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console
from rich.progress import Progress

from holons_bench import plots
from holons_bench.counting import SCHEMES, WINDOWS_BEFORE, Outcome, measure
from holons_bench.records import Record, by_case, check_known, print_table, recorder
from holons_bench.report import Report
from holons_bench.sensors import SensorTrace

BENCH: Final = "count"
WINDOWS: Final = 8  # that count, after those in which nothing is predicted
NODE_SYSTEMS: Final[tuple[str, ...]] = ()
"""Systems that run on nodes over logs. There are none here so far."""

RAW_BYTES: Final = 16  # of a row: its time and its value
PREDICTING: Final = ("approx", "mon", "sync", "async", "ruler")


@dataclass(frozen=True)
class CountCase:
    """Some schemes over one trace, as a point of a figure."""

    figure: str
    point: str
    trace: SensorTrace
    schemes: tuple[str, ...] = SCHEMES

    @property
    def name(self) -> str:
        return f"{self.figure}: {self.point}"


def cases(*, quick: bool = False, floats: bool = False) -> list[CountCase]:
    """Returns all cases: those of the paper, at sizes that fit one machine; smaller ones if it has to be quick."""
    million = 50_000 if quick else 1_000_000
    windows = WINDOWS_BEFORE + (3 if quick else WINDOWS)
    trace = SensorTrace(8, million, windows, 0.01, floats=floats)
    made = [CountCase("figure 7", f"8 partitions, L = {million:,}", trace)]
    for partitions in (1, 2):
        few = replace(trace, partitions=partitions)
        made.append(CountCase("figure 8", f"{partitions} partitions", few, ("central", "async", "ruler")))
    for partitions in (1, 2, 8) if quick else (1, 2, 4, 8, 16, 32):
        grown = replace(trace, partitions=partitions, window=partitions * million // 8)
        made.append(
            CountCase("figure 9", f"{partitions} partitions", grown, ("central", "mon", "monlocal", "async", "ruler"))
        )
    two = replace(trace, partitions=2)
    for redraws in (1,) if quick else (1, 10):
        for change in (0.01, 0.5) if quick else (0.001, 0.01, 0.05, 0.1, 0.5, 1.0):
            changing = replace(two, change=change, redraws=redraws)
            point = f"r = {100 * change:g}%, q = {redraws}"
            made.append(CountCase("figure 10", point, changing, ("central", *PREDICTING)))
    for change in (0.01, 0.5):
        for window in (million // 10, million) if quick else (10_000, 100_000, 1_000_000, 4_000_000):
            sized = replace(two, window=window, change=change)
            point = f"L = {window:,}, r = {100 * change:g}%"
            made.append(CountCase("figure 10", point, sized, ("central", *PREDICTING)))
    return made


def run(
    *,
    figures: Sequence[str] = (),
    schemes: Sequence[str] = (),
    quick: bool = False,
    floats: bool = False,
    progress: bool = False,
) -> list[Record]:
    """Measures all cases, or those of some figures and schemes."""
    wanted = cases(quick=quick, floats=floats)
    check_known(schemes, SCHEMES, "a scheme of count windows")
    check_known(figures, list(dict.fromkeys(case.figure.split()[-1] for case in wanted)), "a figure that is measured")
    wanted = [case for case in wanted if not figures or case.figure.split()[-1] in figures]
    records: list[Record] = []
    with Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task("count windows", total=len(wanted))
        for case in wanted:
            bar.update(task, description=case.name)
            for scheme, outcome in outcomes(case, schemes):
                records += _records(case, scheme, outcome)
            bar.advance(task)
    return records


def outcomes(case: CountCase, schemes: Sequence[str] = ()) -> Iterator[tuple[str, Outcome]]:
    """Yields what each scheme of a case gives, after comparing it with `central`."""
    exact = measure("central", case.trace, None)
    for scheme in case.schemes:
        if not schemes or scheme in schemes:
            yield scheme, exact if scheme == "central" else measure(scheme, case.trace, exact.results)


# --- records --------------------------------------------------------------------------------------------------------


def _records(case: CountCase, scheme: str, outcome: Outcome) -> list[Record]:
    record, windows, sent = recorder(BENCH, case.name), outcome.windows, outcome.traffic
    return [
        record(scheme, "rate_core", outcome.rows / outcome.seconds, "rows/s/core"),
        record(scheme, "bytes_up", (sent.up + sent.shared) / windows, "bytes/window"),
        record(scheme, "bytes_down", sent.down / windows, "bytes/window"),
        record(scheme, "bytes_reader", sent.shared / windows, "bytes/window"),
        record(
            scheme, "bytes_of_rows", (sent.up + sent.down + sent.shared) / (RAW_BYTES * outcome.rows), "of all rows"
        ),
        record(scheme, "keys", sent.keys / windows, "keys/window"),
        record(scheme, "keys_expected", math.sqrt(6 * case.trace.partitions * case.trace.window), "keys/window"),
        record(scheme, "rows_sent", sent.rows_up / outcome.rows, "of all rows"),
        record(scheme, "rows_again", sent.rows_again / windows, "rows/window"),
        record(scheme, "recomputed", sent.recomputed / windows, "rows/window"),
        record(scheme, "corrections", 100 * outcome.corrections / windows, "per 100 windows"),
        record(scheme, "correct", 1 - outcome.misplaced, "of all rows"),
    ]


def show(records: Sequence[Record], console: Console | None = None) -> None:
    """Prints a table for each case, with a line for each scheme."""
    for case, values in by_case(records).items():
        schemes = dict.fromkeys(system for system, _ in values)
        print_table(
            f"{case} (sizes are per window)",
            ("scheme", "M rows/s", "KB up", "down", "reader", "rows", "refolded", "rounds", "correct"),
            [[scheme, *_cells({m: value for (s, m), value in values.items() if s == scheme})] for scheme in schemes],
            console=console,
        )


def _cells(figures: dict[str, float]) -> list[str]:
    return [
        f"{figures['rate_core'] / 1e6:.1f}",
        *(f"{figures[name] / 1e3:,.1f}" for name in ("bytes_up", "bytes_down", "bytes_reader")),
        f"{100 * figures['rows_sent']:.3g}%",
        *(f"{figures[name]:,.0f}" for name in ("recomputed", "corrections")),
        f"{100 * figures['correct']:.4g}%",
    ]


# --- a page ---------------------------------------------------------------------------------------------------------


def report(records: Sequence[Record]) -> Report:
    """Returns a page with the figures of the paper, drawn from records."""
    page = Report("Count windows over all partitions: Deco's schemes, and one without a root")
    page.text(
        "One process, rows in memory, an integer sum unless said. Rates are per second of CPU time of one core, so they "
        "leave out every wait; bytes are those of the messages. All windows but those of approx are those of central."
    )
    points = by_case(records)
    for title, figure, chosen, metric, unit in _DRAWN:
        lines: dict[str, list[tuple[str, float]]] = {}
        for case, values in points.items():
            name, point = case.split(": ", 1)
            if name == figure and chosen(point):
                for (scheme, measured), value in values.items():
                    if measured == metric:
                        lines.setdefault(scheme, []).append((_label(point), value))
        if lines:
            page.figure(plots.lines(title, unit, lines))
    for case, values in points.items():
        schemes = dict.fromkeys(system for system, _ in values)
        table: list[list[str | float]] = [[s, *(values[s, metric] for metric, _ in _COLUMNS)] for s in schemes]
        page.table(["scheme", *(name for _, name in _COLUMNS)], table, caption=case)
    return page


def _label(point: str) -> str:
    return point.split(", ", maxsplit=1)[0] if point.startswith(("r =", "L =")) else point


_COLUMNS: Final = (
    ("rate_core", "rows/s/core"),
    ("bytes_up", "bytes up"),
    ("bytes_down", "bytes down"),
    ("bytes_reader", "each reader"),
    ("bytes_of_rows", "of 16 a row"),
    ("keys", "keys"),
    ("keys_expected", "√(6pL)"),
    ("rows_sent", "rows sent"),
    ("rows_again", "again"),
    ("recomputed", "recomputed"),
    ("corrections", "2nd rounds in 100"),
    ("correct", "correct"),
)
_DRAWN: Final = (
    ("Figure 7a: throughput", "figure 7", lambda point: True, "rate_core", "rows a second and core"),
    ("Figure 8: bytes", "figure 8", lambda point: True, "bytes_up", "bytes up for each window"),
    ("Figure 9a: throughput by partitions", "figure 9", lambda point: True, "rate_core", "rows a second and core"),
    ("Figure 10a: throughput by change of rates", "figure 10", lambda p: p.endswith("q = 1"), "rate_core",
     "rows a second and core"),
    ("Figure 10b: bytes by change of rates", "figure 10", lambda p: p.endswith("q = 1"), "bytes_of_rows",
     "bytes, as a part of 16 for each row"),
    ("Figure 10b: the same, rates drawn ten times a window", "figure 10", lambda p: p.endswith("q = 10"),
     "bytes_of_rows", "bytes, as a part of 16 for each row"),
    ("Figure 10c: second rounds", "figure 10", lambda p: p.endswith("q = 1"), "corrections", "in 100 windows"),
    ("Figure 10d: correctness", "figure 10", lambda p: p.endswith("q = 1"), "correct", "part of all rows"),
    ("Figure 10e: throughput by window", "figure 10", lambda p: p.endswith("r = 1%"), "rate_core", "rows a second and core"),
    ("Figure 10f: correctness by window, rates change by 50%", "figure 10", lambda p: p.endswith("r = 50%"), "correct",
     "part of all rows"),
)  # fmt: skip
