"""A load: the same events however they are cut, each at its place, never further out of order than it says."""

import numpy as np
import pyarrow as pa
import pytest

from holons.errors import BadInput
from holons.nexmark import AUCTION_COLUMNS, COLUMNS, PERSON_COLUMNS, Load, shuffled

LOADS = [
    Load(5_000),
    Load(4_987, partitions=1, group=50),
    Load(5_000, seed=3, partitions=4, group=7),
    Load(5_021, partitions=3, group=999, rate=3_000_000),  # some at the same instant; ends within a group
    Load(300, partitions=2, group=1_000, rate=777),  # less than a group
    Load(3, partitions=5),  # streams and partitions without rows
    Load(0),
]
COLUMNS_OF = {"people": PERSON_COLUMNS, "auctions": AUCTION_COLUMNS, "bids": COLUMNS}


def whole(load: Load, stream: str, partition: int, rows: int = 100) -> pa.Table:
    return pa.Table.from_batches(load.batches(stream, partition, rows), load.schema(stream))


def event_ids(load: Load, stream: str) -> np.ndarray:
    return load._ids(stream, np.arange(load.count(stream)))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_every_event_comes_once(load):
    found = np.concatenate([event_ids(load, stream) for stream in load.streams])
    assert sorted(found.tolist()) == list(range(load.events))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_events_of_a_kind_come_in_the_order_of_arrival(load):
    groups = -(-load.events // load.group)
    arrivals = shuffled(np.arange(groups * load.group), load.group)
    arrivals = arrivals[arrivals < load.events]
    places = {"people": [0], "auctions": [1, 2, 3], "bids": range(4, 50)}
    for stream in load.streams:
        wanted = [event for event in arrivals.tolist() if event % 50 in places[stream]]
        assert event_ids(load, stream).tolist() == wanted


def test_of_every_50_events_one_is_a_person_and_three_are_auctions():
    for group in (1, 49, 50, 1_000):
        load = Load(5_000, group=group)
        assert [load.table(stream).num_rows for stream in load.streams] == [100, 300, 4_600]
        assert [load.count(stream) for stream in load.streams] == [100, 300, 4_600]


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_the_kth_arrival_of_a_kind_goes_to_partition_k_modulo_partitions(load):
    for stream in load.streams:
        table = load.table(stream)
        assert table.schema.names == [*COLUMNS_OF[stream], "_partition", "_offset"]
        numbers = table["_offset"].to_numpy() * load.partitions + table["_partition"].to_numpy()
        assert numbers.tolist() == list(range(table.num_rows))
        for partition in range(load.partitions):
            mine = table.filter(pa.compute.equal(table["_partition"], partition))
            assert mine["_offset"].to_pylist() == list(range(mine.num_rows))
            assert mine.select(COLUMNS_OF[stream]).to_pylist() == whole(load, stream, partition).to_pylist()


@pytest.mark.parametrize("load", LOADS[:4], ids=str)
def test_partitions_are_disjoint_and_batches_may_be_cut_anywhere(load):
    for stream in load.streams:
        parts = [whole(load, stream, partition).to_pylist() for partition in range(load.partitions)]
        for partition, part in enumerate(parts):
            assert whole(load, stream, partition, rows=7).to_pylist() == part
            batches = list(load.batches(stream, partition, rows=7))
            assert all(batch.num_rows == 7 for batch in batches[:-1])
        rows = [tuple(row.values()) for part in parts for row in part]
        assert len(set(rows)) == len(rows) == load.count(stream)


@pytest.mark.parametrize("group", [1, 50, 64])
def test_the_events_are_the_same_whatever_the_partitions_and_the_group(group):
    def rows(load: Load, stream: str) -> list[str]:
        return sorted(map(str, load.table(stream).drop_columns(["_partition", "_offset"]).to_pylist()))

    wanted, other = Load(1_033, seed=5), Load(1_033, seed=5, partitions=4, group=group)
    for stream in wanted.streams:
        assert rows(wanted, stream) == rows(other, stream)
        assert rows(wanted, stream) != rows(Load(1_033, seed=6), stream)


def falls(load: Load, stream: str, partition: int) -> int:
    """The most that a time lies below an earlier one."""
    times = whole(load, stream, partition)["date_time"].cast("int64").to_numpy()
    return int((np.maximum.accumulate(times) - times).max(initial=0))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_disorder_is_never_exceeded(load):
    for stream in load.streams:
        for partition in range(load.partitions):
            assert falls(load, stream, partition) <= load.disorder_us
    assert (load.disorder_us == 0) == (load.group == 1)


@pytest.mark.parametrize("load", [Load(9_991, group=50), Load(20_000, group=999, rate=77), LOADS[4]], ids=str)
def test_disorder_is_tight(load):
    assert max(falls(load, "bids", partition) for partition in range(load.partitions)) > 0.8 * load.disorder_us


def test_some_columns_are_made_alone():
    load = Load(500, group=9)
    (batch,) = load.batches("bids", 1, columns=("price", "date_time"))
    assert batch.schema.names == ["price", "date_time"]
    assert batch.to_pylist() == whole(load, "bids", 1).select(["price", "date_time"]).to_pylist()
    assert load.table("people", columns=["id"]).schema.names == ["id", "_partition", "_offset"]


def test_the_first_day_begins_at_midnight():
    first = next(Load(50).batches("people", 0))["date_time"][0].as_py()
    assert first.isoformat() == "2015-07-15T00:00:00+00:00"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"events": -1}, "-1 events"),
        ({"events": 1, "partitions": 0}, "partitions=0"),
        ({"events": 1, "rate": 0}, "rate=0"),
        ({"events": 1, "group": 0}, "group=0"),
        ({"events": 1, "group": 1_906}, "groups of 1906"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(told, message):
    with pytest.raises(BadInput, match=message):
        Load(**told)


def test_unknown_streams_and_partitions_are_refused():
    with pytest.raises(BadInput, match="no stream 'offers'"):
        Load(50).table("offers")
    with pytest.raises(BadInput, match="partition 3"):
        next(Load(50).batches("bids", 3))
