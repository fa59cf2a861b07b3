"""A driver that writes a stream, as a script of its own: FILES, the SITE, beside it a directory `query` for its
checkpoint, and how many bytes a task reads.

Tasks fail, and workers are killed, while they write; the parent kills the driver.
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
from pyspark.sql.types import StructType

from holons.engines.spark.source import HolonsSource
from holons.engines.spark.writing import StreamWriter, Written


class FragileWriter(StreamWriter):
    """The real one; but every third task fails or dies, once, before it writes, or when it has."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        rows = [batch for batch in iterator if batch.num_rows]
        first = min((batch.column("value")[0].as_py() for batch in rows), default=0)
        fate = zlib.crc32(str(first).encode()) % 12
        if fate == 0 or fate == 1:
            self._once(first, dies=fate == 0)
        written = super().write(iter(rows))
        if fate == 2 or fate == 3:
            self._once(first, dies=fate == 2)
        return written

    def _once(self, first: int, *, dies: bool) -> None:
        mark = self._writing.site.directory.parent / "query" / "failed" / f"{first}"
        if not mark.exists():
            mark.touch()
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("injected")


class FragileSource(HolonsSource):
    @classmethod
    def name(cls) -> str:
        return "fragile"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FragileWriter:
        return FragileWriter(super().streamWriter(schema, overwrite)._writing)


if __name__ == "__main__":
    files, site, checkpoint, split = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2, 8]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.files.maxPartitionBytes", split)
        .config("spark.sql.files.openCostInBytes", "0")
        .getOrCreate()
    )
    (Path(checkpoint) / "failed").mkdir(parents=True, exist_ok=True)
    spark.dataSource.register(FragileSource)
    rows = spark.readStream.schema("value long, ts long").option("maxFilesPerTrigger", "1").parquet(files)
    query = (
        rows.writeStream.format("fragile")
        .options(stream="rows", partitions="3", checkpointLocation=f"{checkpoint}/spark")
        .trigger(availableNow=True)
        .start(site)
    )
    query.awaitTermination()
