"""What holds for every shared stream: one list for each writer, and a cursor that misses nothing and repeats nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.streams.log_kinds import KINDS, kind_of_log


@pytest.fixture(params=KINDS)
def kind(request):
    with kind_of_log(request.param) as kind:
        yield kind


def test_every_writer_counts_for_itself(kind):
    a, b = kind.open_shared("a"), kind.open_shared("b")
    assert (a.writer, b.writer) == ("a", "b")
    assert [a.append(b"x"), a.append(b""), b.append(b"y")] == [0, 1, 0]
    cursor = {}
    assert sorted(b.read(cursor, 10)) == [("a", 0, b"x"), ("a", 1, b""), ("b", 0, b"y")]
    assert cursor == {"a": 2, "b": 1}
    assert b.read(cursor, 10) == []


def test_a_reader_takes_as_many_as_it_asks_for(kind):
    a = kind.open_shared("a")
    for number in range(5):
        a.append(bytes([number]))
    cursor = {}
    assert a.read(cursor, 0) == []
    assert [message.position for message in a.read(cursor, 2)] == [0, 1]
    assert [message.position for message in a.read(cursor, 9)] == [2, 3, 4]


def test_a_trimmed_writer_starts_later(kind):
    a, b = kind.open_shared("a"), kind.open_shared("b")
    for number in range(5):
        a.append(bytes([number]))
    b.append(b"y")
    b.trim({"a": 3})
    assert (a.start("a"), a.start("b"), a.start("nobody")) == (3, 0, 0)
    assert a.starts() == {"a": 3, "b": 0}
    assert [message[:2] for message in a.read({"a": 1}, 9)] == [("a", 3), ("a", 4), ("b", 0)]
    b.trim({"a": 5})
    assert a.starts() == {"a": 5, "b": 0}
    cursor = {"b": 1}
    assert (b.read(cursor, 9), cursor) == ([], {"a": 5, "b": 1})
    assert a.append(b"z") == 5
    assert b.read(cursor, 9) == [("a", 5, b"z")]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("abc"), st.binary(max_size=200)),
        st.tuples(st.just("read"), st.sampled_from("abc"), st.integers(0, 8)),
        st.tuples(st.just("trim"), st.sampled_from("abc"), st.floats(0, 1)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("name", KINDS)
@given(steps=operations)
def test_nothing_is_missed_and_nothing_repeated(name, steps):
    written, cursors, seen, trimmed = {}, {}, {}, {}
    with kind_of_log(name) as kind:
        for step, writer, argument in steps:
            log = kind.open_shared(writer)
            if step == "append":
                assert log.append(argument) == len(written.setdefault(writer, []))
                written[writer].append(argument)
            elif step == "read":
                found = log.read(cursors.setdefault(writer, {}), argument)
                assert len(found) <= argument
                seen.setdefault(writer, []).extend(found)
            else:
                below = int(argument * len(written.get(writer, [])))
                log.trim({writer: below})
                trimmed[writer] = max(trimmed.get(writer, 0), below)
                assert log.start(writer) <= trimmed[writer]
        for reader in "abc":
            log = kind.open_shared(reader)
            got = seen.get(reader, []) + log.read(cursors.get(reader, {}), 1_000)
            for writer, data in written.items():
                mine = [message for message in got if message.writer == writer]
                positions = [message.position for message in mine]
                assert positions == sorted(set(positions))
                assert set(range(log.start(writer), len(data))) <= set(positions)
                assert [message.data for message in mine] == [data[position] for position in positions]
