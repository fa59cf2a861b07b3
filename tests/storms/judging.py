"""What a storm must have given: computed by polars, from what the producers noted. Nothing of what runs a job is used.

The input is what a new reader sees once all is over. It must have each batch that was acknowledged, at its place, and
beside those at most one batch of each producer and partition: the one that it was about to append when it died or was
fenced off, whole. What the rows are is made again from the notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from tests.storms.market import BATCH_ROWS_MAX, DEAR, DISORDER, EVERY, SECOND, SPAN, STREAM, Batch

from holons.streams import ReadableLog
from holons.windows import ENDING

HOUR = 3_600 * SECOND


@dataclass
class Noted:
    """A batch that a producer was about to append, and whether that was acknowledged."""

    batch: Batch
    offset: int
    acknowledged: bool = False


def noted(directory: Path, seed: int) -> dict[int, Noted]:
    """Returns all batches of which producers made a note, by the number of their first row."""
    batches: dict[int, Noted] = {}
    for path in sorted(directory.glob("producer-*")):
        producer = int(path.name.removeprefix("producer-"))
        for what, *words in map(str.split, path.read_text().splitlines()):
            if what == "begin":
                number, partition, at, rows, offset = map(int, words)
                batch = Batch(seed, producer, number, partition, at, rows)
                batches[batch.first_row] = Noted(batch, offset)
            elif what == "acknowledged":
                first_row = Batch(seed, producer, *map(int, words[:2]), 0, 0).first_row
                batches[first_row].acknowledged = True
    return batches


def check_input(log: ReadableLog, batches: Mapping[int, Noted]) -> None:
    """Raises unless a stream has what was acknowledged, and nothing that nobody wrote."""
    seen: set[int] = set()
    unacknowledged: Counter[tuple[int, int]] = Counter()
    for partition in range(log.partitions):
        frame = entries(log, partition).filter(pl.col("mark").is_null()).drop("mark")
        pieces = frame.group_by(pl.col("row") // BATCH_ROWS_MAX * BATCH_ROWS_MAX, maintain_order=True)
        for (first_row,), piece in pieces:
            note = batches[first_row]
            whole = note.batch.frame().with_columns(offset=note.offset + pl.int_range(note.batch.rows, dtype=pl.Int64))
            where = f"{note} in partition {partition}"
            assert note.batch.partition == partition, f"another partition: {where}"
            assert piece.equals(whole.select(piece.columns)), f"other rows, or elsewhere: {where}:\n{piece}\n{whole}"
            seen.add(first_row)
            unacknowledged[note.batch.producer, partition] += not note.acknowledged
    missing = [note for first_row, note in batches.items() if note.acknowledged and first_row not in seen]
    assert not missing, f"{len(missing)} acknowledged batches are missing: {missing[:3]}"
    assert all(count <= 1 for count in unacknowledged.values()), f"refused rows are there: {unacknowledged}"


def entries(log: ReadableLog, partition: int) -> pl.DataFrame:
    """Returns rows and marks of a partition, each with its offset."""
    at, end, frames = log.start(partition), log.end(partition), list[pl.DataFrame]()
    while at < end:
        for chunk in log.read(partition, at, 100_000):
            if chunk.rows is None:
                frames.append(pl.DataFrame({"offset": [chunk.offset], "mark": [chunk.mark]}))
            else:
                frame = pl.DataFrame(chunk.rows)
                offsets = chunk.offset + pl.int_range(len(frame), dtype=pl.Int64)
                frames.append(frame.with_columns(offset=offsets))
            at = chunk.end
    empty = pl.DataFrame(schema=dict.fromkeys(["offset", "mark", "row", "ts", "price", "auction"], pl.Int64))
    return pl.concat([empty, *frames], how="diagonal_relaxed")


def expected(log: ReadableLog, batches: Mapping[int, Noted]) -> dict[str, pl.DataFrame]:
    """Returns the rows of each channel, in order, with the partition that has them."""
    made = pl.DataFrame([(row, note.batch.at) for row, note in batches.items()], ["first", "made"], orient="row")
    parts = [_judged(entries(log, partition), made, partition) for partition in range(log.partitions)]
    partitions = pl.DataFrame({"partition": range(log.partitions)})
    rows = pl.concat(part.filter("punctual") for part in parts)
    mine = rows.group_by("partition", start=pl.col("ts") // EVERY * EVERY).agg(mine=pl.len().cast(pl.Int64))
    every = rows.group_by(start=pl.col("ts") // EVERY * EVERY).agg(
        bids=pl.len().cast(pl.Int64), volume=pl.col("price").sum(), highest=pl.col("price").max()
    )
    tumbling = partitions.join(every, how="cross").join(mine, on=["partition", "start"], how="left")
    slides = pl.concat(
        rows.select("auction", start=pl.col("ts") // EVERY * EVERY - back) for back in range(0, SPAN, EVERY)
    )
    counts = slides.group_by("start", "auction").len().sort("start", "auction")
    texts = counts.group_by("start", maintain_order=True).agg(
        auctions=pl.format("{}:{}", "auction", "len").str.join(",")
    )
    diverted = {"row", "ts", "price", "auction"}
    place = [pl.lit(STREAM).alias("_stream"), pl.col("offset").alias("_offset")]
    everything = pl.concat(parts)
    return {
        "tumbling": tumbling.with_columns(pl.col("mine").fill_null(0)).sort("partition", "start"),
        "sliding": partitions.join(texts, how="cross").sort("partition", "start"),
        "dear": rows.filter(pl.col("price") > DEAR).select("partition", "row", "price"),
        "late": everything.filter("late").select("partition", *sorted(diverted), *place),
        "dead": everything.filter("dead").select("partition", *sorted(diverted), *place),
    }


def _judged(frame: pl.DataFrame, made: pl.DataFrame, partition: int) -> pl.DataFrame:
    """Says of each row of a partition whether it is dead, late or punctual."""
    first = pl.col("row") // BATCH_ROWS_MAX * BATCH_ROWS_MAX
    frame = frame.with_columns(first=first, partition=pl.lit(partition, pl.Int64))
    frame = frame.join(made, on="first", how="left", maintain_order="left")
    is_row, ts = pl.col("mark").is_null(), pl.col("ts")
    frame = frame.with_columns(dead=is_row & (ts.is_null() | (ts > pl.col("made") + HOUR)))
    living = is_row & ~pl.col("dead")
    clock = pl.when(living).then(ts - DISORDER).otherwise("mark").cum_max().forward_fill()
    frame = frame.with_columns(late=(living & (ts < clock)).fill_null(value=False))
    return frame.with_columns(punctual=living & ~pl.col("late"))


def differences(
    found: Mapping[str, pl.DataFrame], wanted: Mapping[str, pl.DataFrame], *, may_repeat: bool
) -> Iterator[str]:
    """Yields what is wrong with the rows of each channel."""
    for channel, rows in wanted.items():
        ours = found[channel].select(rows.columns).cast(dict(rows.schema)) if len(found[channel]) else rows.clear()
        if may_repeat:
            ours = ours.unique(maintain_order=True)
            ours = ours.sort("partition", maintain_order=True)
        if not ours.equals(rows):
            missing, surplus = rows.join(ours, on=rows.columns, how="anti", nulls_equal=True), ours.join(
                rows, on=rows.columns, how="anti", nulls_equal=True
            )  # fmt: skip
            yield (
                f"{channel}: {len(ours)} rows instead of {len(rows)}, {len(missing)} missing, {len(surplus)} wrong;\n"
                f"missing: {missing.head(5)}\nwrong: {surplus.head(5)}"
            )


def ended(log: ReadableLog) -> bool:
    """Returns whether each partition has its end."""
    return all(
        entries(log, partition)["mark"].max() == ENDING for partition in range(log.partitions)
    )  # of marks, the last is the largest
