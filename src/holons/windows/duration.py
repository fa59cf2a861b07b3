"""Durations and instants as whole microseconds.

Every time in Holons is an integer count of microseconds since 1970-01-01 UTC, negative before. Event times must lie
strictly between `-TIME_LIMIT` and `TIME_LIMIT` (some 73,000 years either way), which leaves room for arithmetic.
"""

from __future__ import annotations

import datetime
import re
from typing import Final, TypeAlias

import numpy as np

from holons.errors import BadDuration

TIME_LIMIT: Final = 2**61
BEGINNING: Final = -(2**62)
"""The watermark of a partition that has seen nothing."""
ENDING: Final = 2**62
"""The watermark of a partition that has ended: a mark at infinity."""

Duration: TypeAlias = str | datetime.timedelta
Instant: TypeAlias = int | datetime.datetime

_UNITS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART: Final = re.compile(r"(\d{1,30})\s*(us|ms|s|m|h|d|w)")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def micros(duration: Duration, *, zero_allowed: bool = False) -> int:
    """Returns a duration in microseconds.

    >>> micros("1s"), micros("1m 30s"), micros(datetime.timedelta(milliseconds=5))
    (1000000, 90000000, 5000)
    """
    if isinstance(duration, datetime.timedelta):
        value = duration // _MICROSECOND
    elif isinstance(duration, str):
        text = duration.strip()
        parts = _PART.findall(text)
        if not parts or _PART.sub("", text).strip():
            raise BadDuration(
                f"cannot read {duration!r} as a duration", hint='write "10ms", "1s", "1m 30s", "1h", "7d"'
            )
        value = sum(int(number) * _UNITS[unit] for number, unit in parts)
    else:
        raise BadDuration(
            f"a duration cannot be a {type(duration).__name__}", hint='write "1s", "10ms", or pass a timedelta'
        )
    if value < 0 or (value == 0 and not zero_allowed):
        raise BadDuration(f"a duration must be positive, not {duration!r}", hint='write "10ms", "1s", "1h"')
    if value >= TIME_LIMIT // 2:
        raise BadDuration(f"{duration!r} is longer than any stream", hint="36,000 years is the limit")
    return value


def instant(when: Instant) -> int:
    """Returns a moment in microseconds; naive datetimes are UTC.

    >>> instant(datetime.datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if isinstance(when, datetime.datetime):
        moment = when if when.tzinfo is not None else when.replace(tzinfo=datetime.UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if isinstance(when, int | np.integer) and not isinstance(when, bool):
        return int(when)
    raise BadDuration(
        f"a moment cannot be a {type(when).__name__}", hint="pass a datetime, or whole microseconds since 1970"
    )


def duration_text(value_us: int) -> str:
    """Writes microseconds in the largest unit that divides them.

    >>> duration_text(1_500_000), duration_text(60_000_000)
    ('1500ms', '1m')
    """
    for unit in ("w", "d", "h", "m", "s", "ms"):
        if value_us and value_us % _UNITS[unit] == 0:
            return f"{value_us // _UNITS[unit]}{unit}"
    return f"{value_us}us"


def instant_text(value_us: int) -> str:
    """Writes a moment as a date where the calendar reaches, else in microseconds."""
    if value_us >= ENDING:
        return "the end"
    if value_us <= BEGINNING:
        return "the beginning"
    try:
        return (_EPOCH + value_us * _MICROSECOND).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    except OverflowError:
        return f"{value_us}us"
