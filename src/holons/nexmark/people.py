"""Nexmark's people: the first of every 50 events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holons.nexmark.chance import Ids, below, padding, texts
from holons.nexmark.generator import FIRST_ID, PERIOD, event_time_us

PERSON_COLUMNS: Final = ("id", "name", "email_address", "credit_card", "city", "state", "date_time", "extra")
STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST_NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_BYTES: Final = 200
_LANE: Final = 100
"""Lanes of chance below are the bids'."""


def person_ids(numbers: Ids) -> Ids:
    """The event ids of the 0th, 1st, 2nd … person."""
    return numbers * PERIOD


def people(
    ids: Ids, *, rate: int = 10_000, seed: int = 0, start_us: int = 0, columns: Sequence[str] = PERSON_COLUMNS
) -> pa.RecordBatch:
    """The people with these event ids (see `person_ids`), at `rate` events per second of event time.

    >>> people(person_ids(np.arange(2)), columns=("id", "name")).num_rows
    2
    """
    names = _names().take(pa.array(below(ids, seed, _LANE, len(_FIRST_NAMES) * len(_LAST_NAMES))))
    email = _email(ids, seed)
    card = _card(ids, seed)
    city = pa.array(CITIES).take(pa.array(below(ids, seed, _LANE + 10, len(CITIES))))
    state = pa.array(STATES).take(pa.array(below(ids, seed, _LANE + 11, len(STATES))))
    make: dict[str, Callable[[], pa.Array]] = {
        "id": lambda: pa.array(FIRST_ID + ids // PERIOD),
        "name": lambda: names,
        "email_address": lambda: email,
        "credit_card": lambda: card,
        "city": lambda: city,
        "state": lambda: state,
        "date_time": lambda: pa.array(start_us + event_time_us(ids, rate)).view(pa.timestamp("us", "UTC")),
        "extra": lambda: padding(ids, 8 + _sizes(names, email, card, city, state), _BYTES, seed, _LANE + 20),
    }
    return pa.record_batch({name: make[name]() for name in columns})


@cache
def _names() -> pa.Array:
    return pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])


def _email(ids: Ids, seed: int) -> pa.Array:
    before, after = (
        texts(ids, 3 + below(ids, seed, lane, longest - 3), seed, lane + 1)
        for lane, longest in ((_LANE + 1, 7), (_LANE + 5, 5))
    )
    return pc.binary_join_element_wise(before, "@", after, ".com", "")


def _card(ids: Ids, seed: int) -> pa.Array:
    groups = [
        pc.utf8_lpad(pa.array(below(ids, seed, _LANE + 12 + n, 10_000)).cast(pa.string()), 4, "0") for n in range(4)
    ]
    return pc.binary_join_element_wise(*groups, " ")


def _sizes(*columns: pa.Array) -> Ids:
    return np.sum([pc.binary_length(column).to_numpy().astype(np.int64) for column in columns], axis=0)
