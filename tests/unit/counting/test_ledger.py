"""The ledger: ranks, folds and contributions do not depend on how rows come in, nor on snapshots."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.counting.streams import Reading, random_streams

from holons import codec
from holons.algebra import GCounter, GSet, Origin, Rows, Sum, rows_of
from holons.counting import Key, Ledger, counted_rows
from holons.counting.counted import Numbered, decode_rows, encode_rows
from holons.errors import CheckpointLost, CodecError, InsertBelowWatermark, InvariantBroken
from holons.windows import BEGINNING, ENDING


def ledger_of(*times: int, disorder: int = 0) -> Ledger:
    """A ledger with a row at each time, whose element is its place in the log."""
    ledger = Ledger(3, GSet())
    for index, ts in enumerate(times):
        ledger.insert(rows_of([index], [ts], partition=3, offset=index), max(times[: index + 1]) - disorder)
    return ledger


def elements(ledger: Ledger, start: int, end: int) -> list[int]:
    return [int(value) for piece in ledger.rows.between(start, end) for value in piece.rows.element.tolist()]


def test_rows_are_ranked_by_time_and_then_by_number():
    ledger = ledger_of(10, 12, 11, 10, 30, disorder=5)
    assert ledger.settled == 4
    assert elements(ledger, 0, 4) == [0, 3, 2, 1]
    assert [ledger.rows.key(rank) for rank in (1, 2, 4)] == [Key(10, 3, 0), Key(10, 3, 3), Key(12, 3, 1)]
    assert ledger.frontier == Key(25, 3, 4)
    assert ledger.rows_held == 5


def test_the_rank_of_a_key_counts_the_rows_at_or_below_it():
    ledger = ledger_of(10, 20, 20, 30)
    keys = [Key(9, 9, 9), Key(20, 2, 99), Key(20, 3, 1), Key(20, 4, 0), Key(30, 3, 3), Key(31, 0, 0)]
    assert [ledger.rows.rank_of(key) for key in keys] == [0, 1, 2, 3, 4, 4]


def test_a_late_row_is_not_counted_but_refused():
    ledger = ledger_of(10, 20)
    with pytest.raises(InsertBelowWatermark):
        ledger.insert(rows_of([1], [19]), 20)


def test_a_mark_settles_what_waits():
    ledger = ledger_of(10, 12, disorder=5)
    assert (ledger.settled, ledger.frontier) == (0, Key(7, 3, 1))
    ledger.mark(11)
    assert (ledger.settled, ledger.frontier) == (1, Key(11, 3, 1))
    ledger.mark(ENDING)
    assert (ledger.settled, ledger.frontier.is_end) == (2, True)


def test_contributions_are_runs_of_ranks_and_empty_ones_are_left_out():
    ledger = ledger_of(10, 11, 12, 13, 14)
    ledger.fold_to(1)
    contributions = ledger.cut(np.array([2, 2, 4]))
    assert [(c.cut, c.start, c.end, c.last_time) for c in contributions] == [(1, 0, 2, 11), (3, 2, 4, 13)]
    assert [GSet().value(c.state) for c in contributions] == [{0, 1}, {2, 3}]
    assert (ledger.cuts, ledger.cut_rank, ledger.rows_held) == (3, 4, 1)


def test_rows_that_are_gone_or_not_certain_are_a_clear_error():
    ledger = ledger_of(10, 11, 12)
    ledger.fold_to(2)
    with pytest.raises(CheckpointLost):
        list(ledger.rows.between(1, 3))
    with pytest.raises(InvariantBroken):
        ledger.cut(np.array([4]))


@given(seed=st.integers(0, 2**32))
def test_ranks_and_contributions_do_not_depend_on_how_the_log_is_read_nor_on_snapshots(seed):
    rng = random.Random(seed)
    streams = random_streams("awkward", rng, rows_max=40)
    runs = []
    for _ in range(2):
        ledger, reading, folded = Ledger(0, Sum("int")), Reading(streams, 0), []
        while not reading.finished:
            for rows, watermark in reading.read(rng.choice((1, 3, 10))):
                if rows is None:
                    ledger.mark(watermark)
                else:
                    ledger.insert(rows, watermark)
            if rng.random() < 0.5:
                ledger.fold_to(min(ledger.settled, ledger.cut_rank + rng.randint(0, 3)))
            if rng.random() < 0.3:
                ledger = Ledger(0, Sum("int"), ledger.snapshot())
            while ledger.settled >= ledger.cut_rank + 4:
                folded += ledger.cut(np.array([ledger.cut_rank + 4]))
        folded += ledger.cut(np.array([ledger.settled]))
        runs.append(([(c[:4], c.state[0].tolist()) for c in folded], ledger.frontier))
    assert runs[0] == runs[1]


def test_elements_that_change_their_type_while_rows_wait_are_kept_as_they_are():
    ledger = Ledger(0, GSet())
    for index, (ts, element) in enumerate([(10, 1), (12, "a"), (11, True), (9, "b"), (13, 5)]):
        ledger.insert(rows_of(element, [ts], offset=index), BEGINNING)
    ledger.mark(12)
    assert [GSet().value(c.state) for c in ledger.cut(np.array([1, 2, 3, 4]))] == [{"b"}, {1}, {True}, {"a"}]


@pytest.mark.parametrize(
    "element",
    [
        7,
        "text",
        [1, 2, 3],
        [0.5, float("nan"), -1.0],
        ["", "é", "\x00"],
        ([1, 2, 3], ["a", "b", "c"]),
        {"n": [1, None, 3], "s": ["x", "y", None], "of": (1, [True, False, True])},
    ],
)
def test_rows_come_back_from_bytes(element):
    rows = counted_rows(element, np.array([5, 6, 6]), Origin(2, 40, 3))
    for piece in (Numbered(rows, 17), Numbered(rows, np.array([17, 20, 19])), Numbered(rows.take(rows.ts > 5), 3)):
        (back,) = decode_rows(encode_rows([piece]))
        assert encode_rows([back]) == encode_rows([piece])
        assert back.rows.origin.offsets().tolist() == piece.rows.origin.offsets().tolist()
        assert back.number_column().tolist() == piece.number_column().tolist()
        assert isinstance(back.rows.element, pl.Series) == isinstance(rows.element, pl.Series)


def test_bytes_that_are_no_rows_are_a_clear_error():
    with pytest.raises(CodecError, match="counted rows"):
        decode_rows(codec.encode([[1, 2]]))


def test_a_row_counts_unless_its_whole_element_is_null():
    def count(element: object) -> int:
        return counted_rows(element, np.arange(3), Origin(0, 0, 3)).count

    assert count(None) == 0
    assert count([1, None, 3]) == 2
    assert count(([1, None, 3], ["a", "b", None])) == 1
    assert count({"a": [1, None, None], "b": [None, None, 2]}) == 2
    assert count({"a": [None, None, None], "b": 1}) == 3


def test_a_run_of_rows_is_folded_as_it_lies_there():
    ledger = Ledger(0, GCounter())
    times = np.arange(100_000)
    ledger.insert(Rows(times, times, Origin(0, 0, len(times)), ascending=True), int(times[-1]))
    (contribution,) = ledger.cut(np.array([60_000]))
    assert GCounter().value(contribution.state) == sum(range(60_000))
