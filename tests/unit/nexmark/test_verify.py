"""A comparison sees every difference, and only differences."""

from __future__ import annotations

import polars as pl
import pytest

from holons.cli.nexmark_engines import ENGINES, embedded, runner
from holons.errors import BadInput
from holons.nexmark import QUERIES, Load, description
from holons.nexmark.verify import compare, streams_of, verify

ROWS = pl.DataFrame({"key": [1, 2, 2, None], "price": [0.5, 0.0, 0.0, None], "name": ["a", "b", "b", None]})


def test_order_does_not_matter():
    for frame in (ROWS, ROWS.reverse(), ROWS[[1, 3, 0, 2]]):
        assert compare("q", frame, ROWS.to_arrow()).same


@pytest.mark.parametrize(
    ("rows", "extra", "missing"),
    [
        (ROWS.head(3), [], [(None, None, None, 1)]),
        (pl.concat([ROWS, ROWS[[1]]]), [(2, 0.0, "b", 1)], []),
        (ROWS[[0, 0, 1, 3]], [(1, 0.5, "a", 1)], [(2, 0.0, "b", 1)]),  # as many rows, and the same ones
        (ROWS.with_columns(pl.lit("b").alias("name")), [(1, 0.5, "b", 1), (None, None, "b", 1)],
         [(1, 0.5, "a", 1), (None, None, None, 1)]),
        (ROWS.clear(), [], [(1, 0.5, "a", 1), (2, 0.0, "b", 2), (None, None, None, 1)]),
    ],
)  # fmt: skip
def test_rows_of_one_side_are_told_with_how_often(rows, extra, missing):
    found = compare("q", rows, ROWS.to_arrow())
    assert not found.same
    assert (found.extra.rows(), found.missing.rows()) == (extra, missing)
    assert (found.rows, found.expected) == (len(rows), 4)


def test_floats_are_compared_by_their_bits():
    one = pl.DataFrame({"x": [0.1 + 0.2, 0.0, float("nan")]})
    assert compare("q", one, one.to_arrow()).same
    for at, value in ((0, 0.3), (1, -0.0), (2, None), (1, None)):
        other = pl.DataFrame({"x": [*one["x"][:at], value, *one["x"][at + 1 :]]})
        assert not compare("q", one, other.to_arrow()).same, (at, value)


@pytest.mark.parametrize(
    "other",
    [ROWS.rename({"key": "id"}), ROWS.select("price", "key", "name"), ROWS.cast({"key": pl.Int32}), ROWS.drop("name")],
)
def test_columns_are_compared_with_their_order_and_types(other):
    found = compare("q", ROWS, other.to_arrow())
    assert not found.same
    assert "expected" in found.columns
    assert not compare("q", ROWS.clear(), other.clear().to_arrow()).same


def broken(drop: int = 0, twice: int = 0):
    """An engine that loses rows, or has some twice."""

    def run(job, streams):
        collected = embedded()(job, streams)
        rows = next(part for part in collected[job.name].values() if part)
        rows[:] = rows[drop:] + rows[:twice]
        return collected

    return run


@pytest.mark.parametrize("name", ["q1", "q5"])
def test_an_engine_that_loses_or_repeats_a_row_is_found_out(name):
    load = Load(300, rate=100)
    given = streams_of(load)
    assert verify(name, given, broken(), rate=100).same
    assert verify(name, given, broken(drop=1), rate=100).missing["times"].to_list() == [1]
    assert verify(name, given, broken(twice=1), rate=100).extra["times"].to_list() == [1]


def test_rows_that_were_late_are_no_match():
    load = Load(1_000, group=200, rate=1_000)
    assert verify("q5", streams_of(load), embedded(), rate=1_000, disorder_us=load.disorder_us).same
    with pytest.warns(UserWarning, match="were late"):
        found = verify("q5", streams_of(load), embedded(), rate=1_000)
    assert found.set_aside > 0
    assert not found.same
    assert "late or broken" in str(found)


def test_a_query_without_rows_has_the_columns_of_its_answer():
    for name in QUERIES:
        found = verify(name, streams_of(Load(0)), embedded())
        assert found.same, found


def test_every_query_tells_what_it_gives():
    told = [description(name) for name in QUERIES]
    assert len(set(told)) == len(told)
    assert all(told)
    with pytest.raises(BadInput, match="'q12'"):
        description("q12")


def test_an_engine_that_is_not_there_is_named():
    assert list(ENGINES)[:2] == ["embedded", "processes"]
    with pytest.raises(BadInput, match="'flink'"):
        runner("flink", 2, 0)
