"""People and auctions follow the published distributions, and any range of them can be made anywhere."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from holons.nexmark.auctions import AUCTION_COLUMNS, auction_ids, auctions
from holons.nexmark.generator import PERIOD, bid_ids, shuffled
from holons.nexmark.people import CITIES, PERSON_COLUMNS, STATES, people, person_ids

MANY = 60_000


@pytest.fixture(scope="module")
def person_frame() -> pl.DataFrame:
    return pl.from_arrow(people(person_ids(np.arange(MANY))))


@pytest.fixture(scope="module")
def auction_frame() -> pl.DataFrame:
    return pl.from_arrow(auctions(auction_ids(np.arange(MANY))))


def test_every_event_is_one_of_the_three():
    events = np.concatenate([person_ids(np.arange(20)), auction_ids(np.arange(60)), bid_ids(np.arange(920))])
    assert sorted(events.tolist()) == list(range(20 * PERIOD))


@pytest.mark.parametrize(
    ("make", "ids", "columns"),
    [(people, person_ids, PERSON_COLUMNS), (auctions, auction_ids, AUCTION_COLUMNS)],
    ids=["people", "auctions"],
)
def test_any_range_and_any_columns_can_be_made_anywhere(make, ids, columns):
    whole = make(ids(np.arange(1_000)), seed=3)
    assert tuple(whole.schema.names) == columns
    parts = [make(ids(np.arange(low, low + 250)), seed=3) for low in range(0, 1_000, 250)]
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(whole)
    for name in columns:
        assert make(ids(np.arange(1_000)), seed=3, columns=(name,)).column(name).equals(whole.column(name))
    assert not make(ids(np.arange(1_000)), seed=4).equals(whole)


def near(share: float, expected: float) -> bool:
    return abs(share - expected) < 0.01


def test_people(person_frame):
    assert person_frame["id"].to_list() == list(range(1000, 1000 + MANY))
    for column, values in (("city", CITIES), ("state", STATES)):
        counts = person_frame[column].value_counts()
        assert set(counts[column]) == set(values)
        assert all(near(count / MANY, 1 / len(values)) for count in counts["count"])
    assert person_frame["name"].n_unique() == 99
    assert person_frame["email_address"].str.contains(r"^[a-z]{3,6}@[a-z]{3,4}\.com$").all()
    assert person_frame["credit_card"].str.contains(r"^\d{4} \d{4} \d{4} \d{4}$").all()


def test_auctions(auction_frame):
    assert auction_frame["id"].to_list() == list(range(1000, 1000 + MANY))
    categories = auction_frame["category"].value_counts()
    assert sorted(categories["category"]) == [10, 11, 12, 13, 14]
    assert all(near(count / MANY, 0.2) for count in categories["count"])
    logarithm = auction_frame["initial_bid"].cast(pl.Float64).log10() - 2
    assert near(logarithm.mean() / 6, 0.5)
    assert (auction_frame["reserve"] > auction_frame["initial_bid"]).all()


def test_three_of_four_auctions_are_the_hot_sellers_and_the_rest_of_active_people(auction_frame):
    last = (auction_ids(np.arange(MANY)) // PERIOD) + 1000
    seller = auction_frame["seller"].to_numpy()
    hot = (last - 1000) // 100 * 100 + 1000
    assert near((seller == hot).mean(), 0.75)
    others = seller != hot
    assert (seller[others] > last[others] - 1000).all()
    assert (seller[others] <= last[others] + 10).all()


def test_auctions_last_up_to_twice_the_time_in_which_a_hundred_are_opened(auction_frame):
    lasting = (auction_frame["expires"] - auction_frame["date_time"]).dt.total_microseconds().to_numpy()
    horizon_us = 1_666 * 100
    assert lasting.min() >= 1_000
    assert lasting.max() < 1_000 + 2 * horizon_us
    assert near((lasting.mean() - 1_000) / (2 * horizon_us), 0.5)


def test_sizes_are_those_that_were_published(person_frame, auction_frame):
    def sizes(frame: pl.DataFrame, numbers: int) -> float:
        texts = [name for name, kind in frame.schema.items() if kind == pl.String]
        return numbers + sum(frame[name].str.len_bytes().mean() for name in texts)

    assert 196 < sizes(person_frame, 8) < 204
    assert 494 < sizes(auction_frame, 56) < 506


def test_events_out_of_order_are_all_there_each_in_its_group():
    found = shuffled(np.arange(1_000), 50)
    assert sorted(found.tolist()) == list(range(1_000))
    assert (found // 50 == np.arange(1_000) // 50).all()
    assert (np.diff(found) < 0).any()
    assert (shuffled(np.arange(100), 1) == np.arange(100)).all()
