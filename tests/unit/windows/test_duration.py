"""Durations and moments are whole microseconds; what cannot be read says what to write instead."""

import datetime
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holons.errors import BadDuration
from holons.windows import BEGINNING, ENDING, TIME_LIMIT, instant, instant_text, micros
from holons.windows.duration import duration_text

UTC = datetime.UTC
UNIT_US = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
    "w": 7 * 86400 * 10**6,
}
GARBAGE = [
    "",
    " ",
    "1",
    "s",
    "1.5s",
    "-1s",
    "+1s",
    "1s x",
    "1min",
    "1 year",
    "1s,2s",
    "1e3s",
    "s1",
    "1S",
    "9" * 5000 + "s",
]
WRONG_TYPES = [True, False, 0, 5, 1.5, None, b"1s", ["1s"]]
NOT_POSITIVE = ["0s", "0us 0ms", datetime.timedelta(0), datetime.timedelta(microseconds=-1)]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("1s", 1_000_000),
        ("10ms", 10_000),
        ("1m 30s", 90_000_000),
        ("1m30s", 90_000_000),
        (" 2 h ", 7_200_000_000),
        ("1ms 1m", 60_001_000),
        (datetime.timedelta(milliseconds=5), 5_000),
        (datetime.timedelta(days=1, microseconds=1), 86_400_000_001),
    ],
)
def test_a_duration_is_read(duration, expected):
    assert micros(duration) == expected


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNIT_US)), st.sampled_from(["", " "])), min_size=1)
)
def test_a_duration_is_the_sum_of_its_parts(parts):
    text = " ".join(f"{number}{space}{unit}" for number, unit, space in parts)
    assert micros(text, zero_allowed=True) == sum(number * UNIT_US[unit] for number, unit, _ in parts)


@pytest.mark.parametrize(
    "duration", [*GARBAGE, *WRONG_TYPES, *NOT_POSITIVE, f"{2**60}us", f"{10**29}w"], ids=lambda d: repr(d)[:20]
)
def test_what_is_no_duration_says_what_to_write(duration):
    with pytest.raises(BadDuration) as caught:
        micros(duration)
    assert caught.value.hint
    assert isinstance(caught.value, ValueError)


def test_zero_only_where_it_is_allowed():
    assert micros("0s", zero_allowed=True) == 0
    with pytest.raises(BadDuration):
        micros(datetime.timedelta(microseconds=-1), zero_allowed=True)


@given(st.integers(1, 2**60 - 1))
def test_a_duration_can_be_read_from_its_text(value_us):
    assert micros(duration_text(value_us)) == value_us


def test_the_text_of_a_duration_uses_the_largest_unit():
    assert [duration_text(micros(text)) for text in ("60s", "90s", "1500us", "14d", "1h")] == [
        "1m",
        "90s",
        "1500us",
        "2w",
        "1h",
    ]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (-7, -7),
        (np.int64(9), 9),
        (datetime.datetime(1970, 1, 1), 0),  # noqa: DTZ001 - naive on purpose
        (datetime.datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), 0),
    ],
)
def test_a_moment_is_microseconds_since_1970(when, expected):
    assert instant(when) == expected


def test_where_the_computer_stands_does_not_matter(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert instant(datetime.datetime(1970, 1, 1)) == 0  # noqa: DTZ001 - naive on purpose
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_counts_days_seconds_and_microseconds(when):
    days = when.toordinal() - datetime.date(1970, 1, 1).toordinal()
    seconds = days * 86400 + when.hour * 3600 + when.minute * 60 + when.second
    assert instant(when) == seconds * 10**6 + when.microsecond


@pytest.mark.parametrize("when", [True, 1.0, "5", None, datetime.date(1970, 1, 1)], ids=repr)
def test_what_is_no_moment_says_what_to_pass(when):
    with pytest.raises(BadDuration, match="hint: pass a datetime"):
        instant(when)


@pytest.mark.parametrize(
    ("value_us", "text"),
    [
        (0, "1970-01-01 00:00:00"),
        (10_500_000, "1970-01-01 00:00:10.5"),
        (-1, "1969-12-31 23:59:59.999999"),
        (TIME_LIMIT, f"{2**61}us"),
        (-TIME_LIMIT, f"-{2**61}us"),
        (ENDING, "the end"),
        (BEGINNING, "the beginning"),
    ],
)
def test_a_moment_for_people(value_us, text):
    assert instant_text(value_us) == text
