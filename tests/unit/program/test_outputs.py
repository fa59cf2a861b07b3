"""Rows that a program gives become tables whose types come from each row alone."""

from __future__ import annotations

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from holons.errors import BadElement
from holons.program.outputs import tables

NOON = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)
VALUES = [
    None,
    True,
    1,
    2.5,
    "text",
    b"bytes",
    NOON,
    NOON.replace(tzinfo=None),
    NOON.astimezone(ZoneInfo("Europe/Berlin")),
    NOON.date(),
    NOON.time(),
    datetime.timedelta(1),
    Decimal("999.9"),
    Decimal("0.001"),
    [],
    [1],
    [1, None],
    {"a": 1},
    {"a": None},
    {"a": 1, "b": "x"},
    {"a": Decimal("1.5")},
]


@pytest.mark.parametrize("first", VALUES, ids=repr)
def test_a_row_is_the_same_whatever_stands_beside_it(first):
    (alone,) = tables([{"v": first}])
    for other in VALUES:
        together = tables([{"v": first}, {"v": other}])
        assert together[0].schema == alone.schema, other
        assert together[0].slice(0, 1).to_pylist() == alone.to_pylist(), other


@pytest.mark.parametrize("value", [object(), {1, 2}, 1 << 63, [1, "a"]], ids=["object", "set", "large", "mixed"])
def test_what_arrow_cannot_hold_is_said(value):
    with pytest.raises(BadElement, match="no plain value"):
        tables([{"v": value}])
