"""What people get wrong in a pipeline is told where it was written, with what to do instead; and sessions of any key."""

from __future__ import annotations

import polars as pl
import pytest

import holons as h
from holons.errors import BadElement, BadInput, BadProgram
from holons.program.dataflow.expressions import across_rows, words

ROWS = pl.DataFrame({"ts": [0, 1, 2], "user": ["ann", "bob", "ann"], "ms": [1.5, 2.0, 0.5], "n": [1, 2, 3]})
SECOND = h.Tumbling("1s")
rows = h.source("in")


def results(pipeline: h.Job) -> h.Results:
    halves = [ROWS[:1], ROWS[1:], ROWS[:0]]
    return h.run(pipeline, {"in": halves}, engine="embedded").wait().results()


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("n").shift(1),
        pl.col("n") > pl.col("n").mean(),
        pl.col("n").cum_sum(),
        pl.col("n").sum().over("user"),
        pl.col("n").rank(),
        pl.when(pl.col("n") == pl.col("n").max()).then(1),
        pl.int_range(pl.len()),
        pl.col("n").fill_null(strategy="forward"),
    ],
    ids=words,
)
def test_an_expression_that_looks_beyond_its_row_is_refused(expression):
    for pipeline in (
        lambda: rows.with_columns(x=expression),
        lambda: rows.window(SECOND).agg(x=h.sum(expression)),
        lambda: rows.window(SECOND).group_by("user").agg(n=h.count()).with_columns(x=expression),
    ):
        with pytest.raises(BadProgram, match=r"test_pipeline_mistakes.py:\d+: .* looks beyond its row"):
            pipeline()


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("n") % 2 == 0,
        pl.lit(1),
        pl.col("user").str.split("n").list.eval(pl.element().str.len_chars().mean()).list.first(),
        pl.when(pl.col("n") > 1).then("n").otherwise(0),
        pl.col("n").is_in([1, 2]),
        pl.max_horizontal("n", "ms"),
        pl.col("user").map_elements(str.upper, return_dtype=pl.String),
        pl.all(),
    ],
    ids=words,
)
def test_an_expression_over_one_row_is_taken(expression):
    assert across_rows(expression) is None
    assert len(results(rows.select(expression).to("out")).rows("out")) == 3


def test_gathered_results_may_be_looked_at_across_rows():
    by_user = rows.window(SECOND).group_by("user").agg(n=h.count()).sort("user")
    shares = by_user.with_columns(share=pl.col("n") / pl.col("n").sum())
    assert [row["share"] for row in results(shares.to("out")).rows()] == [2 / 3, 1 / 3]


@pytest.mark.parametrize(
    ("measure", "told"),
    [
        (h.sum("ms"), 'h.sum(..., kind="float")'),
        (h.max("user"), 'h.max(..., kind="str")'),
        (h.sum("user"), "a column of numbers"),
        (h.mean("user"), "a column of numbers"),
    ],
    ids=str,
)
def test_a_column_that_is_no_integer_is_told_with_its_line(measure, told):
    with pytest.raises(BadElement) as caught:
        results(rows.window(SECOND).agg(x=measure).to("out"))
    assert told in str(caught.value)
    assert "test_pipeline_mistakes.py" in str(caught.value)


def test_keys_are_names():
    with pytest.raises(BadProgram, match="takes names of columns"):
        rows.window(SECOND).group_by(pl.col("user"))  # type: ignore[arg-type]


def test_a_pipeline_without_a_sink_is_no_job():
    with pytest.raises(BadInput, match=r"\.to\("):
        h.run(rows.window(SECOND).agg(n=h.count()), {"in": [ROWS]}, engine="embedded")  # type: ignore[arg-type]


def test_a_missing_column_is_told_once_and_with_its_line():
    with pytest.raises(BadProgram) as caught:
        h.source("in", schema=ROWS).filter(pl.col("nn") > 1)
    assert str(caught.value).count("test_pipeline_mistakes.py") == 1
    assert 'filter nn > 1: unable to find column "nn"' in str(caught.value)


def test_sets_and_tuples_become_lists_and_structs():
    kept = rows.window(SECOND).agg(users=h.using(h.GSet(), "user"), best=h.using(h.TopK(1), "n", "user"))
    (row,) = results(kept.to("out")).rows()
    assert row["users"] == ["ann", "bob"]
    assert row["best"] == [{"field_0": 3, "field_1": "ann"}]


@pytest.mark.parametrize("key", ["user", "n"])
def test_every_session_is_told_once_whatever_its_key(key):
    sessions = rows.window(h.Session("1s")).group_by(key).agg(rows=h.count())
    told = [row[key] for row in results(sessions.to("out")).rows()]
    assert sorted(told) == sorted(set(ROWS[key]))
    best = results(sessions.top_k(1, by="rows").to("out")).rows()
    assert sorted(row[key] for row in best) == sorted(set(ROWS[key]))


def test_a_session_of_everything_is_told_once():
    alone = rows.window(h.Session("1s")).agg(rows=h.count())
    assert [row["rows"] for row in results(alone.to("out")).rows()] == [3]
