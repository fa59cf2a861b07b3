"""Every so many sales, whatever the time, over all partitions: a pipeline over count windows.

A lot is five sales, in the order of their times. Each partition counts its own; what they tell each other is how many
sales they have up to which time, never the sales. The second sink follows the newest five sales by seller.
"""

from __future__ import annotations

import sys

import polars as pl

import holons as h

LOT = 5

sales = h.source("sales", disorder="500ms", schema={"ts": pl.Int64, "seller": pl.Int64, "price": pl.Int64})
lots = sales.window(h.CountWindow(LOT)).agg(
    total=h.sum("price"), dearest=h.max("price"), sellers=h.count_distinct("seller")
)
newest = sales.window(h.CountWindow(LOT, every=2)).group_by("seller").agg(sales=h.count()).top_k(2, by="sales")

job = h.job(lots.to("lots"), newest.to("newest"), name="sale_lots")

if __name__ == "__main__":
    some = pl.DataFrame({"ts": range(0, 3_000_000, 100_000), "seller": [1, 2, 1] * 10, "price": range(30)})
    results = h.run(job, {"sales": [some, some]}, engine="embedded").wait().results()
    sys.stdout.write(f"{results.to_polars('lots')}\n{results.to_polars('newest')}\n")
