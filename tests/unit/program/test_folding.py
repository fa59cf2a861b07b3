"""A program folded in parts gives what it gives in one go, whoever has which rows."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.programs import EverythingExact, ThreeStages, TwoFilters
from tests.workloads import EXAMPLES, load, streams

import holons as h
from holons.errors import BadInput, NotFoldable
from holons.program import canonical, collect
from holons.program.folding import Fold, Partial, PartialFold, Starts, needs_order
from holons.semantics import run as run_oracle
from holons.windows import END, EventClock

FOLDABLE = [name for name in EXAMPLES if name not in ("alert_rule", "sale_lots")]
TRIES = settings.default.max_examples // 2


def logs_of(job, make, span_s, seed, *, late: bool) -> list[pl.DataFrame]:
    """Each partition's rows; without those that a log would set aside as late, if asked."""
    found = []
    for parts in streams(job, make, span_s, seed=seed)[job.inputs[0].stream]:
        frames = [piece for piece in parts if isinstance(piece, pl.DataFrame)]
        frame = pl.concat(frames) if frames else pl.DataFrame({"ts": []}, {"ts": pl.Int64})
        if not late and len(frame):
            valid = frame["ts"].is_not_null().to_numpy()
            observed = EventClock(job.inputs[0].disorder_us).observe(frame["ts"].drop_nulls().to_numpy())
            if observed.late is not None:
                keep = np.ones(len(frame), dtype=bool)
                keep[np.flatnonzero(valid)[observed.late]] = False
                frame = frame.filter(keep)
        found.append(frame)
    return found


def expected_of(job, logs: list[pl.DataFrame]) -> bytes:
    stream = job.inputs[0].stream
    return canonical(run_oracle(job, {stream: [[frame, END] if len(frame) else [END] for frame in logs]}))


def part(fold: Fold, place: int, frame: pl.DataFrame, orders: np.ndarray, starts: Starts) -> Partial:
    begun = PartialFold(fold.job, place, 0, starts.of(place, int(orders[0])), bounded=fold.bounded)
    begun.take(frame, orders)
    return Partial.decode(begun.partial().encode())


def cuts(rng: random.Random, count: int, most: int) -> list[int]:
    return sorted({0, count, *(rng.randint(0, count) for _ in range(rng.randint(0, most)))})


@pytest.mark.parametrize("name", FOLDABLE)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=TRIES)
def test_rounds_of_parts_with_restarts_give_what_a_log_gives(name, seed):
    job, rng = load(name), random.Random(seed)
    logs = logs_of(job, *EXAMPLES[name], seed=seed, late=True)
    spread = name != "nested_market"  # it counts what it has seen: one part has a partition's rows
    fold, outputs = Fold(job, [len(logs)], bounded=False), []
    rounds = rng.randint(1, 4)
    edges = [sorted([0, len(log), *(rng.randint(0, len(log)) for _ in range(rounds - 1))]) for log in logs]
    for number in range(rounds):
        if rng.random() < 0.5:
            fold = Fold(job, [len(logs)], bounded=False, resume=fold.snapshot())
        wanted = []
        for place in range(len(logs)):
            first, last = edges[place][number : number + 2]
            for low, high in pairwise(cuts(rng, last - first, 3 if spread else 0)):
                wanted.append((place, first + low, first + high))
        rng.shuffle(wanted)

        def folded(starts: Starts, wanted=wanted, fold=fold) -> list[Partial]:
            return [part(fold, at, logs[at][low:high], np.arange(low, high), starts) for at, low, high in wanted]

        parts = folded(fold.starts())
        retold = fold.retold(parts)
        if retold is not None:
            parts = folded(retold)
            assert fold.retold(parts) is None
        outputs += fold.take(parts)
    outputs += fold.finish()
    assert canonical(collect(outputs)) == expected_of(job, logs)


@pytest.mark.parametrize("name", FOLDABLE)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=TRIES)
def test_a_bounded_fold_does_not_care_who_has_which_rows(name, seed):
    job, rng = load(name), random.Random(seed)
    logs = logs_of(job, *EXAMPLES[name], seed=seed, late=False)
    fold = Fold(job, [len(logs)], bounded=True)
    parts = []
    for place, log in enumerate(logs):
        order = list(range(len(log)))
        if name != "nested_market":
            rng.shuffle(order)
        for low, high in zip(
            inner := cuts(rng, len(log), 0 if needs_order(job, bounded=True) else 4), inner[1:], strict=False
        ):
            begun = PartialFold(job, place, 0, bounded=True)
            mine = order[low:high]
            for some in (sorted(mine[: len(mine) // 2]), sorted(mine[len(mine) // 2 :])):
                begun.take(log[some], np.array(some, dtype=np.int64))
            parts.append(begun.partial())
    rng.shuffle(parts)
    assert canonical(collect(fold.take(parts) + fold.finish())) == expected_of(job, logs)


@pytest.mark.parametrize("program", [EverythingExact(), ThreeStages(), TwoFilters()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("seed", range(10))
def test_awkward_programs_fold_as_well(program, seed):
    name = "nested_market" if isinstance(program, TwoFilters) else "user_sessions"
    example = load(name)
    job = h.job(program, example.inputs[0].stream)
    logs = logs_of(job, *EXAMPLES[name], seed=seed, late=False)
    fold = Fold(job, [len(logs)], bounded=True)
    parts = []
    for place, log in enumerate(logs):
        for low in range(0, len(log), 7):
            parts.append(part(fold, place, log[low : low + 7], np.arange(low, min(low + 7, len(log))), fold.starts()))
    assert canonical(collect(fold.take(parts) + fold.finish())) == expected_of(job, logs)


# --- what cannot be folded --------------------------------------------------------------------------------------------


class Counting(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"n": self.n[window]}


class Peeking(Counting):
    def process(self, events):
        self.n.peek(self.n.window.at(0))


class Asking(Counting):
    def process(self, events):
        self.n.watermark()


class Advancing(Counting):
    def process(self, events):
        self.n.insert(1, events.ts)
        self.n.advance(events.ts)


class PuttingOut(Counting):
    def process(self, events):
        self.output(events)


class Remembering(Counting):
    seen = h.Local(0)


ROWS = pl.DataFrame({"ts": [0, 1, 2, 3]})


def parts_of(program, chosen: list[list[int]], *, bounded: bool) -> tuple[Fold, list[Partial]]:
    fold = Fold(h.job(program, "in"), [1], bounded=bounded)
    return fold, [part(fold, 0, ROWS[some], np.array(some, dtype=np.int64), fold.starts()) for some in chosen]


def test_a_program_that_awaits_is_not_folded():
    with pytest.raises(NotFoldable, match="awaits") as refused:
        Fold(load("alert_rule"), [1], bounded=True)
    assert "h.run" in refused.value.hint


@pytest.mark.parametrize(("program", "what"), [(Peeking(), "peek"), (Asking(), "watermark")])
def test_a_part_does_not_look_at_the_whole(program, what):
    with pytest.raises(NotFoldable, match=what):
        parts_of(program, [[0, 1]], bounded=True)


@pytest.mark.parametrize(
    ("program", "bounded", "chosen", "told"),
    [
        (Remembering(), True, [[0, 1], [2, 3]], "several tasks, and process has a Local"),
        (Advancing(), False, [[0, 1], [2, 3]], "moves the watermark by hand"),
        (Counting(), False, [[0, 2], [1, 3]], "none knows which are late"),
        (PuttingOut(), True, [[0, 2], [1, 3]], "process puts rows out"),
    ],
)
def test_rows_that_depend_on_each_other_are_not_folded_apart(program, bounded, chosen, told):
    fold, parts = parts_of(program, chosen, bounded=bounded)
    with pytest.raises(NotFoldable, match=told) as refused:
        fold.take(parts)
    assert "one task" in refused.value.hint


@pytest.mark.parametrize(
    ("program", "bounded", "chosen"),
    [
        (Remembering(), True, [[0, 1, 2, 3]]),
        (Advancing(), False, [[0, 1, 2, 3]]),
        (Advancing(), True, [[0, 2], [1, 3]]),
        (PuttingOut(), True, [[2, 3], [0, 1]]),
    ],
)
def test_the_same_programs_where_it_does_not_matter(program, bounded, chosen):
    fold, parts = parts_of(program, chosen, bounded=bounded)
    got = fold.take(parts) + fold.finish()
    expected = run_oracle(fold.job, {"in": [[ROWS, END]]})
    assert canonical(collect(got)) == canonical(expected)


class Numbering(Counting):
    """Numbers its rows: what it puts out depends on all before."""

    seen = h.Local(0)

    def process(self, events):
        count = len(events)
        self.output(events.with_columns(number=pl.Series(range(self.seen.value, self.seen.value + count))))
        self.seen.value += count


def test_locals_go_on_from_round_to_round():
    job, outputs = h.job(Numbering(), "in"), []
    fold = Fold(job, [1], bounded=False)
    for some in ([0], [1, 2], [3]):
        fold = Fold(job, [1], bounded=False, resume=fold.snapshot())
        outputs += fold.take([part(fold, 0, ROWS[some], np.array(some, dtype=np.int64), fold.starts())])
    assert [row["number"] for row in collect(outputs)["process"][0]] == [0, 1, 2, 3]


def test_rows_that_a_task_sees_in_any_order_are_put_out_in_theirs():
    fold = Fold(h.job(PuttingOut(), "in"), [1], bounded=True)
    begun = PartialFold(fold.job, 0, 0, bounded=True)
    for some in ([2, 3], [0, 1]):
        begun.take(ROWS[some], np.array(some, dtype=np.int64))
    assert [row["ts"] for row in collect(fold.take([begun.partial()]))["process"][0]] == [0, 1, 2, 3]


def test_an_order_that_repeats_or_goes_back_is_refused():
    fold, parts = parts_of(Counting(), [[0, 1]], bounded=False)
    with pytest.raises(BadInput, match="same place in its order"):
        part(fold, 0, ROWS[[0, 1]], np.array([3, 3]), fold.starts())
    fold.take(parts)
    with pytest.raises(BadInput, match="came again"):
        fold.take(parts)
