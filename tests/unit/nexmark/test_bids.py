"""Bids follow the laws of the canonical generator, and are the same however they are cut."""

import numpy as np
import pytest

from holons.nexmark import COLUMNS, NUMBERS, bid_ids, bids
from holons.nexmark.generator import bids_before

MANY = bid_ids(np.arange(1_000_000, 1_200_000))
LAST = MANY // 50


@pytest.fixture(scope="module")
def many() -> dict[str, np.ndarray]:
    return {name: column.to_numpy(zero_copy_only=False) for name, column in _columns(bids(MANY, rate=100_000, seed=3))}


def _columns(batch):
    return zip(batch.schema.names, batch.columns, strict=True)


def test_of_every_50_events_the_last_46_are_bids():
    ids = bid_ids(np.arange(460))
    assert set(ids.tolist()) == {event for event in range(500) if event % 50 >= 4}
    assert [bids_before(event) for event in ids.tolist()] == list(range(460))


def test_any_range_can_be_made_anywhere():
    whole = bids(MANY[:5_000], seed=3)
    parts = [bids(MANY[first : min(first + 777, 5_000)], seed=3) for first in range(0, 5_000, 777)]
    assert [row for part in parts for row in part.to_pylist()] == whole.to_pylist()
    assert bids(MANY[:100], seed=3) != bids(MANY[:100], seed=4)


def test_columns_are_made_alone_as_they_are_together():
    whole = bids(MANY[:500])
    assert tuple(whole.schema.names) == COLUMNS
    for name in COLUMNS:
        assert bids(MANY[:500], columns=[name])[name] == whole[name]
    assert tuple(bids(MANY[:5], columns=NUMBERS).schema.names) == NUMBERS


def test_half_of_the_bids_go_to_the_hot_auction_and_the_rest_to_those_in_flight(many):
    last = LAST * 3 + 2
    hot = many["auction"] == 1000 + last // 100 * 100
    age = (last + 1000 - many["auction"])[~hot]
    assert hot.mean() == pytest.approx(0.5 + 0.5 / 111, abs=0.005)
    assert set(np.unique(age)) == set(range(-10, 101))  # the last 100 and itself, and ten that are still to come


def test_three_of_four_bids_come_from_the_hot_bidder_and_the_rest_from_active_people(many):
    hot = many["bidder"] == 1000 + LAST // 100 * 100 + 1
    age = (LAST + 1000 - many["bidder"])[~hot]
    assert hot.mean() == pytest.approx(0.75, abs=0.005)
    assert (age.min(), age.max()) == (-10, 999)
    assert np.histogram(age, 10)[0].std() < 0.05 * len(age) / 10


def test_the_first_bids_know_only_who_is_there():
    first = bids(bid_ids(np.arange(46)))
    assert set(first["auction"].to_pylist()) <= set(range(1000, 1013))
    assert set(first["bidder"].to_pylist()) <= set(range(1000, 1011))


def test_logarithms_of_prices_are_uniform(many):
    tens = np.log10(many["price"])
    assert (tens >= 2).all()
    assert (tens <= 8).all()
    assert np.histogram(tens, 6, (2, 8))[0].std() < 0.02 * len(tens) / 6


def test_half_of_the_bids_come_through_four_channels_with_a_url_each(many):
    hot = np.isin(many["channel"], ["Google", "Facebook", "Baidu", "Apple"])
    assert hot.mean() == pytest.approx(0.5, abs=0.005)
    assert len(set(many["url"][hot])) == 4
    rest = many["channel"][~hot]
    assert {name.partition("-")[0] for name in rest} == {"channel"}
    assert len(set(rest)) > 9_900
    named = np.array(["channel_id" in url for url in many["url"][~hot]])
    assert named.mean() == pytest.approx(0.9, abs=0.01)


def test_bids_are_a_hundred_bytes_on_average(many):
    lengths = np.array([len(text) for text in many["extra"]])
    assert (lengths.min(), lengths.max()) == (54, 81)
    assert lengths.mean() + 32 == pytest.approx(100, abs=1)


def test_event_time_goes_by_event_id():
    batch = bids(np.array([4, 54, 1_000_004]), rate=100, start_us=7)
    assert batch["date_time"].cast("int64").to_pylist() == [40_007, 540_007, 10_000_040_007]
