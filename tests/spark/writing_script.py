"""A driver that writes a stream, as a script of its own: FILES, the SITE, a directory for its checkpoint, and
how many bytes a task reads.

Tasks fail, and workers are killed, the first time that they are tried; the parent kills the driver.
"""

from __future__ import annotations

import os
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def fragile(place: str):
    """Rows as they are; but every third task fails, or dies, once."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            first = batch.column("value")[0].as_py() if batch.num_rows else 0
            fate = zlib.crc32(str(first).encode()) % 9
            mark = Path(place) / f"{first}"
            if fate < 3 and not mark.exists():
                mark.touch()
                if fate == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("injected")

    return work


if __name__ == "__main__":
    files, site, checkpoint, split = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2, 8]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.files.maxPartitionBytes", split)
        .config("spark.sql.files.openCostInBytes", "0")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50000")
        .getOrCreate()
    )
    failed = Path(checkpoint) / "failed"
    failed.mkdir(parents=True, exist_ok=True)
    rows = spark.readStream.schema("value long, ts long").option("maxFilesPerTrigger", "1").parquet(files)
    query = (
        rows.mapInArrow(fragile(str(failed)), rows.schema)
        .writeStream.format("holons")
        .options(stream="rows", partitions="3", checkpointLocation=f"{checkpoint}/spark")
        .trigger(availableNow=True)
        .start(site)
    )
    query.awaitTermination()
