"""What `why` and `peek` tell of count windows, and what errors call them."""

from __future__ import annotations

import polars as pl
import pytest
from rich.console import Console

import holons as h
from holons.cli import why as cli
from holons.engines.memory_site import MemorySite, logs_of
from holons.engines.why import Contribution, SealedByNodes, why
from holons.errors import ProgramFailed, UnknownWindow, WindowNotCompleted
from holons.node import Node, Settings, sync_stream
from holons.streams import MemoryLog
from holons.windows import END


class Pairs(h.Program):
    """Of every four rows (sliding by two) their sum, and of every three how many are of this partition."""

    total = h.WCRDT(h.Sum("int"), h.CountWindow(4, every=2))
    mine = h.WLocal(h.GCounter(), h.CountWindow(3, partial=True))

    def process(self, events):
        self.total.insert(events["n"], events.ts)
        self.mine.insert(1, events.ts)

    @h.on_window(total)
    def on_total(self, window):
        yield {"from": window.start, "total": self.total[window]}

    @h.on_window(mine)
    def on_mine(self, window):
        yield {"from": window.start, "mine": self.mine[window]}


JOB = h.job(Pairs(), "in", disorder="10us")
ONE = pl.DataFrame({"ts": [1, 5, 3, 9], "n": [1, None, 2, 4]}, schema={"ts": pl.Int64, "n": pl.Int64})
TWO = [pl.DataFrame({"ts": [2, 7, 8], "n": [10, 20, 40]}), h.Mark(8), END]


def test_rows_offsets_values_and_outputs_of_a_count_window():
    logs = logs_of({"in": [[ONE, END], TWO]})
    (told,) = why(JOB, logs, 2, channel="on_total")  # in order: 1, 10, 2 | 20, 40, 4; the null does not count
    assert told.window == h.Window(2, 6)
    assert told.values == {"total": 66}
    assert told.contributions == (Contribution("total", 0, 2, 2, 3, 6), Contribution("total", 1, 2, 1, 2, 60))
    assert [output.row for output in told.outputs["on_total"]] == [{"from": 2, "total": 66}] * 2
    assert (told.stage, told.text) == (0, "rows 3 to 6")
    (told,) = why(JOB, logs, 3, channel="on_mine")
    assert told.contributions == (Contribution("mine", 0, 1, 1, 1, 1), Contribution("mine", 1, 2, 1, 2, 2))
    (told,) = why(JOB, logs, 6, channel="on_mine")
    assert told.contributions[0] == Contribution("mine", 0, 1, 3, 3, 1), "the rest"
    assert told.contributions[1].rows == 0


def test_a_window_that_is_not_there_or_not_full_is_told_so():
    with pytest.raises(UnknownWindow, match=r"hint: near it are 2 .*, 0 \("):
        why(JOB, logs_of({"in": [[ONE, END], TWO]}), 3, channel="on_total")
    with pytest.raises(UnknownWindow):
        why(JOB, logs_of({"in": [[ONE, END], TWO]}), 4, channel="on_total")
    open_log = MemoryLog(2)
    for partition, frame in enumerate((ONE, TWO[0])):
        open_log.append(partition, frame.to_arrow().to_batches()[0])
    with pytest.raises(WindowNotCompleted, match="wait for more rows"):
        why(JOB, {"in": open_log}, 2, channel="on_total")


def test_it_agrees_with_what_nodes_sealed_and_a_node_can_be_peeked_at(capsys):
    site = MemorySite(logs_of({"in": [[ONE, END], TWO]}))
    node = Node("a#1", site.ports("a#1"), Settings())
    node.add_job("pairs", JOB)
    while not node.finished:
        site.clock.sleep_s(0.01)
        node.tick()
    sync = site.shared(sync_stream("pairs"), "reader")
    sealed = SealedByNodes.read(JOB, 2, sync)
    told = why(JOB, logs_of({"in": [[ONE, END], TWO]}), 0, sealed=sealed)
    assert {part.sealed for explanation in told for part in explanation.contributions} == {"agrees"}
    Console().print(cli._account(told[0]))
    assert "rows 1 to 4" in capsys.readouterr().out
    assert node.jobs["pairs"].peek("total", h.Window(2, 6)) == 66
    assert node.jobs["pairs"].peek("total", h.Window(40, 44)) is None
    assert node.jobs["pairs"].peek("total", h.Window(4, 8)) == 44, "two rows of four"


def test_errors_call_a_count_window_by_its_rows():
    many = pl.DataFrame({"ts": range(303), "n": [1] * 303})

    class Failing(Pairs):
        mine = h.WLocal(h.GCounter(), h.CountWindow(101))

        @h.on_window(mine)
        def on_mine(self, window):
            raise ValueError("so many")

    with pytest.raises(ProgramFailed, match="rows 1 to 101"):
        why(h.job(Failing(), "in"), logs_of({"in": [[many, END]]}), 0)
