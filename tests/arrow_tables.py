"""A table with a column of every kind of Arrow type, and what Hypothesis may draw for each."""

from __future__ import annotations

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import strategies as st

BERLIN = ZoneInfo("Europe/Berlin")
_TIMES = st.integers(0, 1 << 52).map(lambda us: datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us))  # noqa: DTZ001
_SECONDS = _TIMES.map(lambda at: at.replace(microsecond=0))
_TEXTS = st.text(max_size=8)
_WORDS = st.sampled_from(["red", "green", "blue"])


def _integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda units: Decimal(units).scaleb(-scale))


WORDS = pa.dictionary(pa.int32(), pa.string())
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), _integers(bits)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (getattr(pa, f"uint{bits}")(), _integers(bits, signed=False)) for bits in (8, 16, 32, 64)},
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (pa.decimal128(12, 3), _decimals(12, 3)),
    "wide_decimal": (pa.decimal128(38, 10), _decimals(28, 10)),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), _TEXTS),
    "large_string": (pa.large_string(), _TEXTS),
    "string_view": (pa.string_view(), _TEXTS),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "date": (pa.date32(), st.dates(datetime.date(1970, 1, 1))),
    "time_s": (pa.time32("s"), st.times().map(lambda at: at.replace(microsecond=0))),
    "time_us": (pa.time64("us"), st.times()),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9))),
    "at_s": (pa.timestamp("s"), _SECONDS),
    "at_us": (pa.timestamp("us"), _TIMES),
    "at_ns": (pa.timestamp("ns"), _TIMES),
    "at_utc": (pa.timestamp("us", "UTC"), _TIMES.map(lambda at: at.replace(tzinfo=datetime.UTC))),
    "at_zone": (pa.timestamp("ms", "Europe/Berlin"), _SECONDS.map(lambda at: at.replace(tzinfo=BERLIN))),
    "category": (WORDS, _WORDS),
    "list": (pa.list_(pa.int16()), st.lists(_integers(16), max_size=3)),
    "array": (pa.list_(pa.float32(), 2), st.tuples(*[st.floats(width=32, allow_nan=False)] * 2).map(list)),
    "struct": (
        pa.struct({"small": pa.int8(), "word": WORDS}),
        st.fixed_dictionaries({"small": st.none() | _integers(8), "word": _WORDS}),
    ),
    "nested": (
        pa.list_(pa.struct({"at": pa.timestamp("us", "UTC"), "price": pa.decimal128(9, 2)})),
        st.lists(
            st.fixed_dictionaries(
                {"at": _TIMES.map(lambda at: at.replace(tzinfo=datetime.UTC)), "price": _decimals(9, 2)}
            ),
            max_size=2,
        ),
    ),
    "nothing": (pa.null(), st.none()),
}
"""By column: its Arrow type, and its values."""


@st.composite
def tables(draw: st.DrawFn, rows_max: int = 12) -> pa.Table:
    """A table with all columns, each with nulls, and a column `ts` of ascending times.

    Structs are never null: polars itself panics where a dictionary without values is below a struct that is null.
    """
    rows = draw(st.integers(0, rows_max))
    columns = {
        name: pa.array([draw(values if name == "struct" else st.none() | values) for _ in range(rows)], dtype)
        for name, (dtype, values) in TYPES.items()
    }
    return pa.table({"ts": pa.array([1_000 * row for row in range(rows)], pa.int64()), **columns})
