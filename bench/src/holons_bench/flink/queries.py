"""Some of Nexmark's queries in Flink SQL, over tables of Parquet files.

Times are stored in microseconds, as Holons reads them; Flink's event time has milliseconds. Nothing comes out of order
within a file (see `files`), so the watermark is one millisecond behind, which is Flink's way to say so.
They are the text of Nexmark's Flink project, with our column names, except where a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holons.errors import BadInput

_BID: Final = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time BIGINT, extra STRING"
_AUCTION: Final = (
    "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, "
    "expires BIGINT, seller BIGINT, category BIGINT, extra STRING"
)
TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "bid": (_BID, "date_time"),
    "auction": (_AUCTION, "date_time"),
}
"""Columns, and which one is the time, by the name of a table."""


@dataclass(frozen=True)
class Query:
    """A query, and the tables it reads."""

    sql: str
    tables: tuple[str, ...]
    mini_batch: bool = False
    """Whether rows are gathered before state is touched. Windows do that by themselves: it would be one more operator."""
    note: str = ""
    """Why it is not the text that everybody uses, where it is not."""


def define(table: str, directory: Path) -> str:
    """Returns the statement that lets Flink read a table's files.

    >>> print(define("bid", Path("/data/bid")))
    CREATE TEMPORARY TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, ...
      rowtime AS TO_TIMESTAMP_LTZ(date_time / 1000, 3), WATERMARK FOR rowtime AS rowtime - INTERVAL '0.001' SECOND)
      WITH ('connector' = 'filesystem', 'path' = 'file:///data/bid', 'format' = 'parquet')
    """
    columns, time = TABLES[table]
    return (
        f"CREATE TEMPORARY TABLE {table} ({columns},\n"
        f"  rowtime AS TO_TIMESTAMP_LTZ({time} / 1000, 3), WATERMARK FOR rowtime AS rowtime - INTERVAL '0.001' SECOND)\n"
        f"  WITH ('connector' = 'filesystem', 'path' = '{directory.absolute().as_uri()}', 'format' = 'parquet')"
    )


def named(name: str) -> Query:
    """Returns the query of that name, or raises `BadInput`."""
    if name not in QUERIES:
        raise BadInput(f"no query {name!r} for Flink", hint=f"one of: {', '.join(QUERIES)}")
    return QUERIES[name]


# --- Nexmark ----------------------------------------------------------------------------------------------------------

_Q0: Final = "SELECT auction, bidder, price, date_time, extra FROM bid"
_Q1: Final = "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid"
_Q2: Final = "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"

_Q4: Final = """
SELECT Q.category, AVG(Q.final) AS average
FROM (
  SELECT MAX(B.price) AS final, A.category
  FROM auction A, bid B
  WHERE A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires
  GROUP BY A.id, A.category) Q
GROUP BY Q.category
"""

_COUNTS: Final = """
  SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '1' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end"""

_Q5: Final = """
SELECT AuctionBids.starttime AS window_start, AuctionBids.auction, AuctionBids.num
FROM ($COUNTS) AS AuctionBids
JOIN (
  SELECT MAX(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
  FROM ($COUNTS) AS CountBids
  GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
  AND AuctionBids.num >= MaxBids.maxn
""".replace("$COUNTS", _COUNTS)

_Q7: Final = """
SELECT B.auction, B.price, B.bidder, B.date_time
FROM bid B
JOIN (
  SELECT MAX(price) AS maxprice, window_time AS ended
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, window_time) B1
ON B.price = B1.maxprice
WHERE B.rowtime BETWEEN B1.ended - INTERVAL '9.999' SECOND AND B1.ended
"""

_Q7_RANKED: Final = """
SELECT auction, price, bidder, date_time
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, date_time ASC) AS place
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '10' SECOND)))
WHERE place <= 1
"""

QUERIES: Final[Mapping[str, Query]] = {
    "q0": Query(_Q0, ("bid",)),
    "q1": Query(_Q1, ("bid",)),
    "q2": Query(_Q2, ("bid",)),
    "q4": Query(_Q4, ("auction", "bid"), mini_batch=True),
    "q5": Query(_Q5, ("bid",), note="slides by 1 s, not 2 s"),
    "q7": Query(
        _Q7,
        ("bid",),
        note="by the window's last instant, a time attribute: Flink then forgets old bids, and joins none of other windows",
    ),
    "q7 ranked": Query(_Q7_RANKED, ("bid",), note="window top-n: the first of the highest bids, and no join"),
}

# --- latency ----------------------------------------------------------------------------------------------------------

_HOTTEST_LIVE: Final = """
SELECT window_end, emitted_us() AS emitted
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY num DESC, auction ASC) AS place
  FROM (
    SELECT window_start, window_end, MOD(auction, 10000) AS auction, COUNT(*) AS num
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '$EVERY' SECOND(2, 3), INTERVAL '$LENGTH' SECOND(2, 3)))
    GROUP BY window_start, window_end, MOD(auction, 10000)))
WHERE place <= 1
"""

_HIGHEST_LIVE: Final = """
SELECT window_end, emitted_us() AS emitted, MAX(price) AS price
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '$LENGTH' SECOND(2, 3)))
GROUP BY window_start, window_end
"""

LIVE: Final[Mapping[str, str]] = {"q5": _HOTTEST_LIVE, "q7": _HIGHEST_LIVE}


def live(name: str, length_ms: int, every_ms: int) -> str:
    """Returns a query that says when each window was emitted; for one row of each window, the least that Flink can do.

    >>> "INTERVAL '0.010' SECOND(2, 3), INTERVAL '10.000' SECOND(2, 3)" in live("q5", 10_000, 10)
    True
    """
    if name not in LIVE:
        raise BadInput(f"no latency of {name!r} for Flink", hint=f"one of: {', '.join(LIVE)}")
    return LIVE[name].replace("$EVERY", _seconds(every_ms)).replace("$LENGTH", _seconds(length_ms))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
