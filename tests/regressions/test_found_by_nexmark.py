"""What Nexmark's queries have brought to light."""

from __future__ import annotations

import polars as pl
import pytest

import holons as h


@pytest.mark.parametrize("every", ["300ms", "400ms"])
def test_a_join_that_feeds_later_windows_goes_with_any_other_windows_in_one_job(every):
    left = h.source("a", schema={"ts": pl.Int64, "k": pl.Int64})
    right = h.source("b", schema={"ts": pl.Int64, "k": pl.Int64})
    near = left.join(right.select("k"), on="k", before="5s", every="1s")
    pairs = near.window(h.Tumbling("1s")).agg(n=h.count()).to("pairs")
    other = left.window(h.Tumbling(every)).agg(n=h.count()).to("other")
    rows = pl.DataFrame({"ts": [100_000, 1_200_000, 2_500_000], "k": [1, 1, 1]})
    given = {"a": [rows], "b": [rows]}

    alone = h.run(pairs, given, engine="embedded").wait().results().rows("pairs")
    assert [row["n"] for row in alone] == [1, 2, 3]
    both = h.job(pairs, other, name="both")
    assert h.run(both, given, engine="embedded").wait().results().rows("pairs") == alone
