"""Windows come out as soon as everybody has sealed them, not only at the end."""

import polars as pl
import pytest

import holons as h
from holons.program import ProgramRun
from holons.wcrdt import Replica

SECOND = 1_000_000


class Fixed(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"start": window.start}


class Sessions(Fixed):
    n = h.WCRDT(h.GCounter(), h.Session("1s"))


@pytest.mark.parametrize("program", [Fixed(), Sessions()], ids=["fixed", "sessions"])
def test_what_is_complete_is_put_out_at_once(program):
    job = h.job(program, "in")
    run, replica = ProgramRun(job, 0, 1), Replica(job.layout.handles, 1)
    told = []
    for offset in range(3):
        run.feed(pl.DataFrame({"ts": [offset * SECOND]}), offset)
        told.append([])
        while run.step(replica):
            outputs, deltas = run.drain()
            told[-1] += [row["start"] for output in outputs for row in output.table.to_pylist()]
            for delta in deltas:
                replica.apply(delta)
    assert told == [[], [0], [SECOND]]
