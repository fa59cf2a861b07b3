"""The hottest auctions of the last ten seconds, every second, over all partitions: a pipeline.

Bids are counted by auction where they are; the counts meet on every node, and one partition tells the winners. The same
job has a second sink: how many bids there are in each second, and how many of them are high.
"""

from __future__ import annotations

import sys

import polars as pl

import holons as h

HIGH = 50

schema = {"ts": pl.Int64, "kind": pl.String, "price": pl.Int64, "auction": pl.Int64}
bids = h.source("bids", disorder="500ms", schema=schema).filter(pl.col("kind") == "bid")

hottest = (
    bids.window(h.Sliding("10s", every="1s"))
    .group_by("auction")
    .agg(bids=h.count(), best=h.max("price"))
    .top_k(1, by="bids", ties=True)
)
counts = bids.window(h.Tumbling("1s")).agg(bids=h.count(), high=h.count(where=pl.col("price") >= HIGH))

job = h.job(hottest.to("hottest"), counts.to("counts"), name="hot_auctions")

if __name__ == "__main__":
    some = pl.DataFrame(
        {"ts": [0, 400_000, 1_200_000], "kind": ["bid"] * 3, "price": [20, 70, 5], "auction": [1, 2, 1]}
    )
    results = h.run(job, {"bids": [some, some]}, engine="embedded").wait().results()
    sys.stdout.write(f"{results.to_polars('hottest')}\n{results.to_polars('counts')}\n")
