"""The bench measures what it says: every event reaches a window, and every figure has a record."""

import io

import numpy as np
from rich.console import Console

from holons_bench import kernels


def test_every_case_gives_flat_records_and_a_line_of_the_table():
    records = kernels.run(30_000, repeat=2, batch=7_000, keys=50)
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    assert all(record["value"] > 0 for record in records)
    assert sum(record["metric"] == "cost" for record in records) == 2
    out = io.StringIO()
    kernels.show(records, Console(file=out, width=200))
    assert all(record["case"] in out.getvalue() for record in records)


def test_all_events_are_in_the_windows(monkeypatch):
    for case in kernels._cases(kernels.EventFeed(30_000, 7_000, 100_000, 50)):
        windows, seen = kernels._Windows(case), []
        monkeypatch.setattr(type(case.aggregate), "value", lambda self, state, group=0, seen=seen: seen.append(state))
        for rows in kernels._batches(case):
            windows.fold(rows)
        windows.close(None)
        monkeypatch.undo()
        assert len(seen) == windows.closed > 0
        if "tumbling" in case.name and "count" in case.name:
            assert sum(int(state[0][0][1][0].sum()) for state in seen) == 30_000
        if case.slide_us:  # all events are within ten seconds of event time
            times = np.concatenate(list(case.feed.times()))
            assert int(seen[-1][0][0][1][0].sum()) == int((times >= times[-1] - kernels.WINDOW_US).sum())
