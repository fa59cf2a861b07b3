"""What holds for every log: it is a list that only grows at its end and is only dropped at its beginning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.log_kinds import KINDS, PARTITIONS, Log, SegmentKind, flat, kind_of_log, rows

from holons.errors import InvariantBroken


@pytest.fixture(params=KINDS)
def kind(request):
    with kind_of_log(request.param) as kind:
        yield kind


@pytest.fixture
def log(kind):
    return kind.open("a")


def test_an_empty_log_has_nothing(log: Log):
    assert log.partitions == PARTITIONS
    for partition in range(PARTITIONS):
        assert (log.start(partition), log.end(partition), log.read(partition, 0, 10)) == (0, 0, [])


def test_what_is_appended_is_read_at_its_offset(log: Log):
    assert log.append(0, rows(1, 2, 3)) == 0
    assert log.mark(0, 77) == 3
    assert log.append(0, rows(4)) == 4
    assert log.append(1, rows(9)) == 0
    assert flat(log.read(0, 0, 100)) == [1, 2, 3, ("mark", 77), 4]
    assert flat(log.read(0, 1, 3)) == [2, 3, ("mark", 77)]
    assert log.read(0, 1, 3)[0].offset == 1
    assert flat(log.read(1, 0, 100)) == [9]
    assert log.read(2, 0, 100) == []
    assert [log.end(partition) for partition in range(3)] == [5, 1, 0]


def test_an_empty_batch_takes_no_place(log: Log):
    log.append(0, rows(1))
    assert log.append(0, rows()) == 1
    assert log.put(0, 1, rows()) is False
    assert log.end(0) == 1
    assert log.read(0, 1, 10) == []


def test_no_rows_are_read_where_none_are_asked_for(log: Log):
    log.append(0, rows(1, 2))
    assert log.read(0, 0, 0) == []
    assert log.read(0, 2, 5) == []
    assert log.read(0, 99, 5) == []


def test_what_is_put_again_is_not_written_again(log: Log):
    assert log.put(0, 0, rows(1, 2)) is True
    assert log.put(0, 0, rows(1, 2)) is False
    assert log.put(0, 1, rows(2, 3)) is True
    assert flat(log.read(0, 0, 100)) == [1, 2, 3]


def test_another_row_at_a_taken_position_is_an_error(log: Log):
    log.put(0, 0, rows(1, 2, 3))
    with pytest.raises(InvariantBroken, match="position is identity"):
        log.put(0, 1, rows(2, 4))
    assert flat(log.read(0, 0, 100)) == [1, 2, 3]


def test_a_put_beyond_the_end_is_an_error(log: Log):
    log.put(0, 0, rows(1))
    with pytest.raises(InvariantBroken, match="ends at 1"):
        log.put(0, 2, rows(3))


def test_a_trimmed_log_goes_on_where_it_was(log: Log):
    for value in range(10):
        log.append(0, rows(value, value + 100))
    log.trim(0, 6)
    assert log.start(0) == 6
    assert flat(log.read(0, 6, 3)) == [3, 103, 4]
    log.trim(0, 20)
    assert (log.start(0), log.end(0)) == (20, 20)
    assert log.read(0, 20, 5) == []
    assert log.append(0, rows(7)) == 20
    assert flat(log.read(0, 20, 5)) == [7]


def test_trimming_again_lower_changes_nothing(log: Log):
    log.append(0, rows(1, 2))
    log.append(0, rows(3, 4))
    log.trim(0, 2)
    log.trim(0, 1)
    assert (log.start(0), flat(log.read(0, 2, 9))) == (2, [3, 4])


# --- when rows were appended -----------------------------------------------------------------------------------------


def appended(log: Log, low: int = 0, rows_max: int = 100) -> list[tuple[int, int, bool]]:
    """For every row and mark: its offset, when it was appended, and whether as it came into being."""
    chunks = log.read(0, low, rows_max)
    return [(at, chunk.appended, chunk.live) for chunk in chunks for at in range(chunk.offset, chunk.end)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_keep_the_time_at_which_they_were_appended(kind):
    with kind_of_log(kind) as logs:
        log = logs.open("a")
        log.append(0, rows(1, 2))
        logs.calendar.at_us = 2_000
        log.append(0, rows(3), live=False)
        log.mark(0, 5)
        log.put(0, 4, rows(4, 5))
        log.put(0, 5, rows(5, 6), appended=2_500, live=False)
        expected = [(0, 1_000, True), (1, 1_000, True), (2, 2_000, False), (3, 2_000, False)]
        expected += [(4, 2_000, True), (5, 2_000, True), (6, 2_500, False)]
        assert appended(log) == expected
        logs.calendar.at_us = 9_000
        for low in range(8):
            for rows_max in range(8):
                assert appended(log, low, rows_max) == expected[low : low + rows_max]


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_of_appending_never_goes_back(kind):
    """Neither when a clock is set back, nor when another writer's clock is behind, nor when a writer begins anew."""
    with kind_of_log(kind) as logs:
        for number, at_us in enumerate([5_000, 4_000, 6_000, 1_000, 7_000, 3_000]):
            logs.calendar.at_us = at_us
            logs.open("ab"[number % 2]).append(0, rows(number))
            if number % 3 == 1 and isinstance(logs, SegmentKind):
                logs.reopen("a")
        assert [at for _, at, _ in appended(logs.open("c"))] == [5_000, 5_000, 6_000, 6_000, 7_000, 7_000]


@pytest.mark.parametrize("kind", KINDS)
def test_some_columns_keep_the_time_too(kind):
    with kind_of_log(kind) as logs:
        logs.open("a").append(0, rows(*range(40_000)))
        (chunk,) = logs.open("b").read(0, 3, 5, ["value"])
        assert (chunk.appended, chunk.live, chunk.length) == (1_000, True, 5)


# --- against a list -------------------------------------------------------------------------------------------------

partitions = st.integers(0, PARTITIONS - 1)
writers = st.sampled_from(["a", "b", "c"])
lengths = st.integers(0, 12)
fractions = st.floats(0, 1)

operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), writers, partitions, lengths),
        st.tuples(st.just("mark"), writers, partitions, st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("put"), writers, partitions, fractions, lengths),
        st.tuples(st.just("read"), writers, partitions, fractions, st.integers(0, 40)),
        st.tuples(st.just("trim"), writers, partitions, fractions),
        st.tuples(st.just("reopen"), writers),
    ),
    max_size=40,
)


class Model:
    """The log as lists, and every operation on both."""

    def __init__(self, kind) -> None:
        self.kind = kind
        self.lists: list[list[object]] = [[] for _ in range(PARTITIONS)]
        self.trimmed = [0] * PARTITIONS

    def append(self, writer, partition, length):
        added = self._values(partition, len(self.lists[partition]), length)
        assert self.kind.open(writer).append(partition, rows(*added)) == len(self.lists[partition])
        self.lists[partition].extend(added)

    def mark(self, writer, partition, ts):
        assert self.kind.open(writer).mark(partition, ts) == len(self.lists[partition])
        self.lists[partition].append(("mark", ts))

    def put(self, writer, partition, fraction, length):
        """Puts at a place from the last mark on: what is there already, and more."""
        there = self.lists[partition]
        lowest = max([self.trimmed[partition], *(at + 1 for at, one in enumerate(there) if isinstance(one, tuple))])
        offset = lowest + int(fraction * (len(there) - lowest))
        values = self._values(partition, offset, length)
        new = offset + length > len(there)
        assert self.kind.open(writer).put(partition, offset, rows(*values)) is new
        there.extend(values[len(there) - offset :])

    def read(self, writer, partition, fraction, limit):
        log = self.kind.open(writer)
        start = log.start(partition)
        offset = start + int(fraction * (len(self.lists[partition]) + 2 - start))
        chunks = log.read(partition, offset, limit)
        assert flat(chunks) == self.lists[partition][offset : offset + limit]
        assert not chunks or chunks[0].offset == offset

    def trim(self, writer, partition, fraction):
        below = int(fraction * (len(self.lists[partition]) + 1))
        self.kind.open(writer).trim(partition, below)
        self.trimmed[partition] = max(self.trimmed[partition], min(below, len(self.lists[partition])))

    def reopen(self, writer):
        if isinstance(self.kind, SegmentKind):
            self.kind.reopen(writer)

    def check(self):
        for writer in ("a", "fresh"):
            log = self.kind.open(writer)
            for partition, there in enumerate(self.lists):
                start = log.start(partition)
                assert start <= self.trimmed[partition]
                assert log.end(partition) == len(there)
                assert flat(log.read(partition, start, 10_000)) == there[start:]
                below = flat(log.read(partition, 0, 10_000))
                assert below == there[len(there) - len(below) :]

    def _values(self, partition, offset, length):
        return [1_000 * partition + place for place in range(offset, offset + length)]


@pytest.mark.parametrize("name", KINDS)
@given(steps=operations)
def test_a_log_is_a_list(name, steps):
    with kind_of_log(name) as kind:
        model = Model(kind)
        for step, *arguments in steps:
            getattr(model, step)(*arguments)
        model.check()


def test_a_log_knows_what_was_appended_before_a_time(kind):
    log = kind.open("a")
    for number in range(6):
        kind.calendar.at_us = 1_000 * number
        log.append(0, rows(number, number))
    other = kind.open("b")
    assert [other.appended_before(0, at_us) for at_us in (0, 1, 1_000, 2_500, 5_000, 5_001)] == [0, 2, 2, 6, 10, 12]
    other.trim(0, 3)
    assert [other.appended_before(0, at_us) for at_us in (0, 1_001, 2_500)] == [3, 4, 6]
    assert other.appended_before(1, 5_000) == 0, "another partition"
