"""Events laid out as Flink reads them best: a Parquet file for each reader, in order of time, plain and uncompressed.

A Flink source task reads one file after the other, and its watermark is the latest time that it has seen. A file for
each task, which has all its partitions row by row, keeps every event on time; more files, and all but the first would
be late. The files are those of one machine: nothing is gained by compressing what is read from the page cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holons.errors import BadInput
from holons.nexmark import auction_ids, auctions, bid_ids, bids
from holons.nexmark.auctions import AUCTION_COLUMNS, AUCTIONS
from holons.nexmark.generator import COLUMNS, PERIOD, bids_before

_BATCH: Final = 200_000
_GROUP_ROWS: Final = 1_000_000


def write_nexmark(
    directory: Path,
    events: int,
    *,
    rate: int,
    readers: int,
    seed: int = 0,
    bid_columns: Sequence[str] = COLUMNS,
    auction_columns: Sequence[str] = AUCTION_COLUMNS,
) -> None:
    """Writes the tables `bid` and `auction`: those among Nexmark's first so many events, at `rate` events per second."""
    parameters = {"rate": rate, "seed": seed}
    counts = bids_before(events), auctions_before(events)
    for reader in range(readers):
        some = (bids(bid_ids(at), columns=bid_columns, **parameters) for at in _numbers(reader, counts[0], readers))
        _write(some, directory / "bid", reader)
        others = (
            auctions(auction_ids(at), columns=auction_columns, **parameters)
            for at in _numbers(reader, counts[1], readers)
        )
        _write(others, directory / "auction", reader)


def auctions_before(event: int) -> int:
    """Returns how many auctions there are among the events with lower ids.

    >>> [auctions_before(event) for event in (0, 1, 2, 4, 50, 52)]
    [0, 0, 1, 3, 3, 4]
    """
    return event // PERIOD * AUCTIONS + min(AUCTIONS, max(0, event % PERIOD - 1))


def count_rows(directory: Path) -> int:
    """Returns how many rows a table's files have."""
    files = sorted(directory.glob("*.parquet"))
    if not files:
        raise BadInput(f"no Parquet files in {directory}", hint="write them with holons_bench.flink.files first")
    return sum(pq.read_metadata(file).num_rows for file in files)


def _numbers(first: int, count: int, step: int) -> Iterator[np.ndarray]:
    """Yields every `step`-th of the numbers below a count, in pieces."""
    for begin in range(first, count, step * _BATCH):
        yield np.arange(begin, min(count, begin + step * _BATCH), step)


def _write(batches: Iterator[pa.RecordBatch], directory: Path, reader: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    for batch in batches:
        table = _plain(pa.Table.from_batches([batch]))
        if writer is None:
            path = directory / f"{reader:03d}.parquet"
            writer = pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table, row_group_size=_GROUP_ROWS)
    if writer is not None:
        writer.close()


def _plain(table: pa.Table) -> pa.Table:
    """Returns a table whose times are numbers of microseconds."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table
