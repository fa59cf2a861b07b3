"""Rules without which a scheme is wrong or waits for ever: each is taken out here, and the error is seen.

`test_schemes.py` shows that nothing goes wrong with all of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from tests.unit.counting.network import Faults, Network, Stuck
from tests.unit.counting.streams import (
    END,
    SHAPES,
    MarkAt,
    Streams,
    expected,
    marked,
    random_streams,
    random_window,
    rows_at,
)

from holons.algebra import GCounter, rows_of
from holons.counting import FIRST, CountedPartition, CountWindow, Cuts, KnownRanks, Ledger, Samples
from holons.counting.schemes import Async, Central, Message, Mon, Ruler, Scheme, Sync, requests, roots
from holons.counting.schemes.asynchronous import AsyncLocal, AsyncRoot
from holons.counting.schemes.cover import Cover, Frontiers
from holons.counting.schemes.decision import Cutting, Decision, decide
from holons.counting.schemes.machines import LedgerLocal
from holons.counting.schemes.messages import Cut, Frontier, Predicted, Segments, Split
from holons.counting.schemes.requests import AnsweringLocal
from holons.counting.schemes.sync import SyncLocal
from holons.errors import DescribedError

SEEDS = range(15)


def goes_wrong(
    scheme: type[Scheme],
    streams: Streams | None = None,
    window: CountWindow | None = None,
    *,
    pace: float | None = None,
    rows_max: int = 60,
    **faults: object,
) -> bool:
    """Whether some of a few runs gives wrong panes, too few, or an error: over given logs, or over any."""
    for seed in SEEDS:
        rng = random.Random(seed)
        logs = random_streams(rng.choice(SHAPES), rng, rows_max) if streams is None else streams
        description = scheme(window or random_window(rng), GCounter(), logs.partitions)
        panes = [(pane.ranks, GCounter().encode(pane.state)) for pane in expected(logs, description.window, GCounter())]
        try:
            if Network(description, logs, rng, Faults(**faults), pace).run() != panes:  # type: ignore[arg-type]
                return True
        except (DescribedError, Stuck):
            return True
    return False


# --- schemes with a root --------------------------------------------------------------------------------------------

AFTER_MARK = Streams([marked(1, 2, 3), [*rows_at(*range(4, 9)), END]])
HIDDEN = Streams([rows_at(1, 2, 3, 100), [*rows_at(4, 5), MarkAt(50)]])
NEVER_FILLED = Streams([rows_at(43, 1000), rows_at(*range(1, 10), 41, 900)])
UNEVEN = Streams([marked(1, 2, 3), marked(1, 2, 3), marked(1, 2), marked(1, 2)])


@dataclass(frozen=True)
class Predicts:
    """A scheme whose root predicts the same sizes from the beginning, right or wrong."""

    size: int
    error: int

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def predicted(scheme: Scheme, cut: int, rank: int) -> Predicted:
            return Predicted(cut, rank, self.size, self.error)

        for module in (requests, roots):
            monkeypatch.setattr(module, "unpredicted", predicted)


def by_totals(covers: Sequence[Cover], pane: int, *, partial: bool) -> Decision:
    """What the paper tests: whether folded rows fit into the pane, and all known rows fill it."""
    folded = [sum(p.end - p.start for p in cover.pieces if p.folded is not None) for cover in covers]
    total = sum(cover.end - cover.floor for cover in covers)
    if sum(folded) <= pane <= total:
        ranks = [cover.floor + count for cover, count in zip(covers, folded, strict=True)]
        for partition, cover in enumerate(covers):
            ranks[partition] += min(cover.end - ranks[partition], pane - sum(ranks) + sum(c.floor for c in covers))
        return Decision(Cutting(np.array(ranks), FIRST))
    return decide(covers, pane, partial=partial)


@pytest.mark.parametrize("scheme", [Sync, Async])
def test_totals_pass_and_keys_do_not(monkeypatch, scheme):
    """Slices of 4 + 4 rows and buffers of 2 + 2 fill a window of 10, of which 3 and 7 are right."""
    streams = Streams([[*rows_at(1, 2, 3, 20, 21, 22, 23), END], [*rows_at(*range(4, 16)), END]])
    assert expected(streams, CountWindow(10), GCounter())[0].ranks == (3, 7)
    Predicts(size=5, error=1).patch(monkeypatch)
    assert not goes_wrong(scheme, streams, CountWindow(10))
    monkeypatch.setattr(roots, "decide", by_totals)
    assert goes_wrong(scheme, streams, CountWindow(10))


@pytest.mark.parametrize("scheme", [Sync, Async])
def test_an_accepted_cut_is_below_the_first_keys_of_all_other_ranges(monkeypatch, scheme):
    streams = Streams([[*rows_at(*range(1, 4), *range(30, 60)), END], [*rows_at(*range(4, 40)), END]])
    Predicts(size=10, error=1).patch(monkeypatch)
    assert not goes_wrong(scheme, streams, CountWindow(20), pace=0.0)
    monkeypatch.setattr("holons.counting.schemes.decision._separates", lambda key, ranks, first: True)
    assert goes_wrong(scheme, streams, CountWindow(20), pace=0.0) or goes_wrong(scheme, rows_max=200)


@pytest.mark.parametrize("scheme", [Sync, Async])
def test_a_range_is_split_below_the_cut_too(monkeypatch, scheme):
    """Of 15 rows in one range the last is the first key that fills a window of 10: to split there changes nothing."""
    streams = Streams([[*rows_at(*range(1, 16)), MarkAt(100)], [MarkAt(100)]])
    Predicts(size=40, error=1).patch(monkeypatch)
    assert not goes_wrong(scheme, streams, CountWindow(10))
    split = AnsweringLocal._split
    monkeypatch.setattr(
        AnsweringLocal, "_split", lambda self, asked: split(self, msgspec.structs.replace(asked, lo=asked.hi))
    )
    assert goes_wrong(scheme, streams, CountWindow(10))


def test_a_mark_closes_what_is_open_before_the_frontier_moves(monkeypatch):
    Predicts(size=40, error=1).patch(monkeypatch)
    assert not goes_wrong(Async, AFTER_MARK, CountWindow(5))
    send = AsyncLocal._send

    def sent(local: AsyncLocal, *, closing: bool) -> None:
        send(local, closing=closing and not local._marked)
        if local._marked:
            local.send_up([], Frontier(local.partition, local._sent, local.ledger.frontier))

    monkeypatch.setattr(AsyncLocal, "_send", sent)
    assert goes_wrong(Async, AFTER_MARK, CountWindow(5))


@pytest.mark.parametrize("scheme", [Central, Async])
def test_a_frontier_does_not_count_before_its_rows(monkeypatch, scheme):
    assert not goes_wrong(scheme)
    monkeypatch.setattr(Frontiers, "at", lambda self, rank: max(self._keys.values(), default=FIRST))
    assert goes_wrong(scheme)


@pytest.mark.parametrize("scheme", [Sync, Async])
def test_what_is_open_is_closed_at_the_end_of_the_log(monkeypatch, scheme):
    """Else a window waits for ever for a range that is never filled."""
    Predicts(size=40, error=1).patch(monkeypatch)
    assert not goes_wrong(scheme, NEVER_FILLED, CountWindow(10))
    local = SyncLocal if scheme is Sync else AsyncLocal
    work = local.work
    monkeypatch.setattr(local, "work", lambda self, *, caught_up: work(self, caught_up=False))
    assert goes_wrong(scheme, NEVER_FILLED, CountWindow(10))


@pytest.mark.parametrize("scheme", [Sync, Async])
def test_a_cut_below_a_silent_frontier_is_looked_for(monkeypatch, scheme):
    """1, 2, 3 and 100 in one range reach beyond the other partition, which is at 50 and silent: the cut is 5."""
    Predicts(size=40, error=1).patch(monkeypatch)
    assert not goes_wrong(scheme, HIDDEN, CountWindow(5))

    def not_hidden(covers: Sequence[Cover], pane: int, *, partial: bool) -> Decision:
        decision = decide(covers, pane, partial=partial)
        return decision._replace(bracket=None) if decision.late else decision

    monkeypatch.setattr(roots, "decide", not_hidden)
    assert goes_wrong(scheme, HIDDEN, CountWindow(5))


@pytest.mark.parametrize("scheme", [Mon, Sync])
def test_who_is_asked_up_to_a_key_and_has_no_rows_there_is_that_far(monkeypatch, scheme):
    assert not goes_wrong(scheme, pace=0.0)
    frontier_at = LedgerLocal.frontier_at
    monkeypatch.setattr(LedgerLocal, "frontier_at", lambda self, rank, asked=FIRST: frontier_at(self, rank))
    assert goes_wrong(scheme, pace=0.0)


def test_mon_sends_the_rank_at_the_frontier_too(monkeypatch):
    monkeypatch.setattr("holons.counting.schemes.mon.spacing", lambda window, partitions: 5)
    assert not goes_wrong(Mon, UNEVEN, CountWindow(10))
    monkeypatch.setattr(KnownRanks, "and_frontier", lambda self, frontier, rank: self)
    assert goes_wrong(Mon, UNEVEN, CountWindow(10))


@pytest.mark.parametrize("late_polls", [False, True])
def test_late_partitions_are_polled(monkeypatch, late_polls):
    """Rows of an open range, which a partition keeps while its log goes on, hold up all others."""
    Predicts(size=40, error=1).patch(monkeypatch)
    streams = Streams([rows_at(43, 1000, 1001), [*rows_at(*range(1, 10), 41), END]])
    if not late_polls:
        monkeypatch.setattr(AsyncRoot, "ask", AsyncRoot.split)
    network = Network(Async(CountWindow(10), GCounter(), 2), streams, random.Random(1))
    for runner in network.runners:  # nobody has read a log to its end
        work = runner.local.work
        monkeypatch.setattr(runner.local, "work", lambda *, caught_up, work=work: work(caught_up=False))
    assert len(network.run()) == late_polls


def two_runs() -> tuple[Network, list[Segments]]:
    """A network that has read 30 rows, and what two runs of them may have sent: ranges that begin and end elsewhere."""
    network = Network(Async(CountWindow(10), GCounter(), 1), Streams([rows_at(*range(30))]), random.Random(1))
    (runner,) = network.runners
    runner.step(30)
    local = runner.local
    assert isinstance(local, AsyncLocal)
    parts = (local.raw(0, 12), [*local.folded(0, 5), *local.folded(5, 20), *local.raw(20, 30)])
    network.log.clear()
    network.waiting.clear()
    network.root = network.scheme.root(network)
    return network, [Segments(0, tuple(sent), None) for sent in parts]


def test_ranges_of_a_run_that_is_no_more_are_asked_for_again():
    network, sent = two_runs()
    for segments in sent:
        network.root.receive(segments)
    assert network.messages(Split) == [Split(12, 20, FIRST, FIRST)]
    assert len(network.run()) == 3


@pytest.mark.parametrize("cuts_first", [False, True])
def test_a_root_that_starts_again_reads_its_cuts_first(cuts_first):
    """In another order it wants a range split of which the rows are gone."""
    network, sent = two_runs()
    network.root.receive(sent[0])
    network.run()
    assert network.messages(Cut)[0].ranks == (10,)
    network.root = network.scheme.root(network)
    if cuts_first:
        network.root.replay([*sent[::-1], *network.messages(Cut)])
    else:
        for segments in sent[::-1]:
            network.root.receive(segments)
    network.published.clear()
    assert len(network.run()) == (3 if cuts_first else 0)


# --- ruler ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("all_frontiers", [True, False])
def test_a_frontier_is_told_and_kept_even_if_it_is_superseded(monkeypatch, all_frontiers):
    """Whoever decided by it has let go of the rows, and could not say their ranks again to those who have not read it."""
    monkeypatch.setattr("holons.counting.partition.spacing", lambda window, partitions: 100)
    ahead, behind = Cuts(CountWindow(4), 2), Cuts(CountWindow(4), 2)
    parts = [CountedPartition(ahead, partition, GCounter()) for partition in range(2)]
    published: list[Samples] = []
    for partition, times in ((0, [1, 2]), (1, [3, 4]), (0, [8]), (1, [6, 7])):
        parts[partition].insert(rows_of(1, times, partition=partition), times[-1])
        for part in parts * 3:
            published += filter(None, [part.samples()])
            part.contributions()
    assert ahead.found_to == 1
    last = [max(index for index, samples in enumerate(published) if samples.partition == part) for part in range(2)]
    for index, samples in enumerate(published):
        known = samples.known()
        behind.unite(samples.partition, known if all_frontiers or index in last else known.take(known.rows))
    assert behind.found_to == (1 if all_frontiers else 0)


def test_the_rank_at_the_frontier_is_published_too(monkeypatch):
    """Four partitions have 3, 3, 2 and 2 rows: with every g-th key alone a window of 10 is never complete."""
    streams = Streams([marked(1, 2, 3), marked(1, 2, 3), marked(1, 2), marked(1, 2)])
    assert not goes_wrong(Ruler, streams, CountWindow(10))
    monkeypatch.setattr(CountedPartition, "_with_frontier", lambda self, known: known)
    monkeypatch.setattr("holons.counting.partition.spacing", lambda window, partitions: 5)
    assert goes_wrong(Ruler, streams, CountWindow(10))


def test_what_is_missing_between_two_samples_is_published_unasked(monkeypatch):
    monkeypatch.setattr(Cuts, "gap", None)
    assert goes_wrong(Ruler)


def test_a_cut_waits_until_this_run_has_read_as_far(monkeypatch):
    """Runs of other nodes are ahead: a cut that they found is none for rows that this run has not read."""
    monkeypatch.setattr(Ledger, "reached", lambda self, ranks: len(ranks))
    assert goes_wrong(Ruler, partitions_again=0.05)


@pytest.mark.parametrize("by", [1, -1])
def test_a_sample_of_a_rank_that_is_off_by_one(monkeypatch, by):
    publish = Samples.of

    def published(lane: int, partition: int, known: KnownRanks) -> Samples:
        ranks = np.where(known.rows, np.maximum(known.ranks + by, 0), known.ranks)
        return publish(lane, partition, KnownRanks(known.times, known.numbers, ranks, known.rows))

    monkeypatch.setattr(Samples, "of", staticmethod(published))
    assert goes_wrong(Ruler)


def test_equal_times_are_in_the_order_of_partitions_and_not_of_arrival(monkeypatch):
    def as_it_comes(times: np.ndarray, numbers: object, partition: int, key: object) -> int:
        return int(np.searchsorted(times, key.time, side="right"))  # type: ignore[attr-defined]

    monkeypatch.setattr("holons.counting.samples.rank_in", as_it_comes)
    assert goes_wrong(Ruler)


def test_samples_that_are_lost_for_good_are_missed():
    def lost(message: Message) -> bool:
        return isinstance(message, Samples) and message.count > 1

    assert goes_wrong(Ruler, lost=lost)
