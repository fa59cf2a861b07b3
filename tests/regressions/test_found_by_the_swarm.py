"""What `holons sim --swarm` found, each as small as it can be."""

from __future__ import annotations

import polars as pl

import holons as h
from holons.windows import END

SECOND = 1_000_000


class TwoStages(h.Program):
    """Windows of the second stage read what the first one has counted."""

    rows = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    windows = h.WCRDT(h.GCounter(), h.Tumbling("1s"), stage=1)

    def process(self, events):
        self.rows.insert(1, events.ts)

    @h.on_window(rows)
    def on_rows(self, window):
        self.windows.insert(1, window)

    @h.on_window(windows)
    def on_windows(self, window):
        yield {"window": window.start, "rows": self.rows[window], "windows": self.windows[window]}


def test_a_later_stage_waits_for_messages_of_earlier_ones_that_were_overtaken():
    """A node was told what had followed from windows of which it was not told yet, and stopped the job everywhere."""
    job = h.job(TwoStages(), "in")
    state, runs = job.open_state(2), [job.open_run(partition, 2) for partition in range(2)]
    sent = []
    for run in runs:
        run.feed(pl.DataFrame({"ts": [0, SECOND]}), 0)
        run.mark(END.ts, 2)
    while not all(run.progress.emitted_to == (END.ts, END.ts) for run in runs):
        for run in runs:
            run.work(state)
            run.emit(state, 100)
            sent += [(message.stage, message.encode()) for message in run.drain()[1]]
        for _, message in sent:
            state.receive(message)
    behind, run = job.open_state(2), job.open_run(0, 2)
    for stage in (1, 0):
        for _, message in (pair for pair in sent if pair[0] == stage):
            behind.receive(message)
        run.emit(behind, 100)
    outputs = [row for output in run.drain()[0] for row in output.table.to_pylist()]
    assert [(row["rows"], row["windows"]) for row in outputs] == [(2, 2), (2, 2)]
