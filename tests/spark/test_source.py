"""`format("holons")`: DataFrames into streams and out of them, batch and streaming."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.session import session
from holons.engines.spark.source import HolonsSource, SourceOptions
from holons.errors import BadName
from holons.windows import END

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return session()


@pytest.fixture
def site(tmp_path: Path) -> DirectorySite:
    site = DirectorySite(tmp_path / "site")
    rows = [pl.DataFrame({"ts": range(n, 100, 10), "price": range(0, 100 - n, 10)}) for n in range(3)]
    site.load({"bids": rows})
    return site


def reader(spark: SparkSession, site: DirectorySite, **options: str) -> DataFrame:
    return spark.read.format("holons").options(**options).load(str(site.directory))


def rows_in(site: DirectorySite, stream: str) -> dict[int, list[dict]]:
    partitions = site.streams()[stream]
    with site.producer(stream, partitions, "reader") as log:
        return {
            partition: [
                row
                for chunk in log.read(partition, 0, 10**9)
                if chunk.rows is not None
                for row in chunk.rows.to_pylist()
            ]
            for partition in range(partitions)
        }


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_stream_is_a_table(spark, site):
    table = reader(spark, site, stream="bids")
    assert table.columns == ["ts", "price"]
    found = sorted(tuple(row) for row in table.collect())
    assert found == sorted((row["ts"], row["price"]) for rows in rows_in(site, "bids").values() for row in rows)


def test_positions_are_columns_and_tasks_share_a_partition(spark, site):
    table = reader(spark, site, stream="bids", positions="true", rowsPerTask="3")
    assert table.columns == ["_partition", "_offset", "ts", "price"]
    assert table.rdd.getNumPartitions() == 3 * 4
    for row in table.collect():
        assert (row.ts, row.price) == tuple(rows_in(site, "bids")[row._partition][row._offset].values())


@pytest.mark.parametrize(
    ("starting", "firsts"),
    [
        ("latest", {}),
        ('{"0": 4, "2": 9}', {0: 4, 1: 0, 2: 9}),
        ("1970-01-01T00:00:00.000051", {0: 6, 1: 5, 2: 5}),
    ],
)
def test_one_begins_anywhere(spark, site, starting, firsts):
    table = reader(spark, site, stream="bids", positions="true", starting=starting)
    found: dict[int, int] = {}
    for row in table.collect():
        found[row._partition] = min(found.get(row._partition, 99), row._offset)
    assert found == firsts


def test_what_a_job_puts_out_is_a_table(spark, site):
    class Total(h.Program):
        emit = "once"
        total = h.WCRDT(h.GCounter(), h.Tumbling("50us"))

        def process(self, events):
            self.total.insert(events["price"], events.ts)

        def on_window(self, window):
            yield {"window": window.start, "total": self.total[window]}

    job = h.job(Total(), "bids", name="totals")
    with h.run(job, log=site.directory, engine="embedded", nodes=1) as run:
        run.wait(600)
    table = reader(spark, site, job="totals")
    expected = {}
    for rows in rows_in(site, "bids").values():
        for row in rows:
            start = row["ts"] // 50 * 50
            expected[start] = expected.get(start, 0) + row["price"]
    assert {row.window: row.total for row in table.collect()} == expected


def test_micro_batches_read_everything_once_and_go_on_after_a_restart(spark, site, tmp_path):
    def run() -> None:
        stream = (
            spark.readStream.format("holons")
            .options(stream="bids", positions="true", maxRowsPerTrigger="7")
            .load(str(site.directory))
        )
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        batches.extend(progress.numInputRows for progress in query.recentProgress)

    batches: list[int] = []
    run()
    with site.producer("more", 1, "p#1"):
        pass
    with site.producer("bids", 3, "producer#2") as log:
        log.append(1, pa.record_batch({"ts": [1000], "price": [7]}))
    run()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(found) == len({(row._partition, row._offset) for row in found}) == 31
    assert max(batches) <= 7


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_appended_and_with_an_id_only_once(spark, tmp_path):
    frame = spark.createDataFrame([(n, n % 3) for n in (5, 1, 4, 2)], "ts long, key int").coalesce(1)
    for version in ("1", "1", "2", "1"):
        (
            frame.write.format("holons")
            .mode("append")
            .options(stream="in", partitions="3", partitionColumn="key", txnAppId="me", txnVersion=version)
            .save(str(tmp_path))
        )
    once = {0: [], 1: [1, 4], 2: [2, 5]}
    assert {p: [row["ts"] for row in rows] for p, rows in rows_in(DirectorySite(tmp_path), "in").items()} == {
        p: times + times for p, times in once.items()
    }
    frame.write.format("holons").mode("append").option("stream", "in").save(str(tmp_path))
    assert sum(map(len, rows_in(DirectorySite(tmp_path), "in").values())) == 12


TYPES = {
    "ts": pa.array([1, 2], pa.int64()),
    "with_zone": pa.array(
        [datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, datetime.UTC), None], pa.timestamp("us", "UTC")
    ),
    "without": pa.array([1_769_860_800_000_000, None], pa.timestamp("us")),
    "day": pa.array([datetime.date(2026, 1, 31), None]),
    "price": pa.array([Decimal("12.34"), None], pa.decimal128(10, 2)),
    "text": pa.array(["é", None]),
    "raw": pa.array([b"\x00\xff", None], pa.binary()),
    "list": pa.array([[1, None], None], pa.list_(pa.int32())),
    "struct": pa.array([{"a": 1, "b": "x"}, None], pa.struct({"a": pa.int64(), "b": pa.string()})),
    "ratio": pa.array([0.5, None], pa.float32()),
    "flag": pa.array([True, None]),
    "small": pa.array([7, None], pa.int8()),
}


def test_all_types_go_in_and_come_out(spark, tmp_path):
    frame = spark.createDataFrame(pa.table(TYPES))
    frame.write.format("holons").mode("append").options(stream="in", sorted="false").save(str(tmp_path))
    back = spark.read.format("holons").load(str(tmp_path), stream="in")
    assert back.schema.simpleString() == frame.schema.simpleString()
    assert back.orderBy("ts").collect() == frame.orderBy("ts").collect()


def test_a_stream_is_written_once_though_tasks_fail(spark, tmp_path):
    rows, fails = 20_000, tmp_path / "failed"
    fails.mkdir()

    def fragile(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        mark = fails / f"{context.partitionId()}-{context.stageId()}"
        if context.attemptNumber() == 0 and context.partitionId() % 2 == 0:
            mark.touch()
            raise RuntimeError("injected")

    source = (
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows // 4).option("numPartitions", 4).load()
    )
    numbered = source.selectExpr("value", "value as ts").mapInArrow(fragile, "value long, ts long")
    query = (
        numbered.writeStream.format("holons")
        .options(stream="in", partitions="2", checkpointLocation=str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "site"))
    )
    try:
        while not query.lastProgress or query.lastProgress.batchId < 3:
            assert query.exception() is None
            query.awaitTermination(0.2)
    finally:
        query.stop()
    assert list(fails.iterdir())
    found = sorted(row["value"] for part in rows_in(DirectorySite(tmp_path / "site"), "in").values() for row in part)
    assert found == list(range(len(found)))
    assert len(found) >= rows


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "which stream?"),
        ({"stream": "nothing"}, "there is no stream 'nothing'.*bids"),
        ({"stream": "bids", "starting": "soon"}, "starting is 'soon'"),
        ({"stream": "bids", "starting": '{"7": 1}'}, "there is no partition 7"),
        ({"stream": "bids", "strem": "x"}, "there is no option 'strem'"),
        ({"stream": "bids", "rowsPerTask": "many"}, "rowsPerTask is 'many'"),
        ({"job": "nobody"}, "no job 'nobody'"),
    ],
)
def test_what_cannot_be_read_is_told(site, options, told):
    def plan() -> None:
        source = HolonsSource({"path": str(site.directory), **options})
        source.reader(source.schema()).partitions()

    with pytest.raises(h.HolonsError, match=f"(?s){told}"):
        plan()


@pytest.mark.parametrize(
    ("options", "mode", "told"),
    [
        ({"stream": "in"}, "overwrite", "never overwritten"),
        ({"stream": "in", "time": "when"}, "append", "no column 'when' to sort by"),
        ({"stream": "in", "partitionColumn": "text"}, "append", "no integer column 'text'"),
        ({"stream": "in", "txnAppId": "me"}, "append", "belong together"),
        ({"job": "in"}, "append", "cannot be written"),
        ({"stream": "bids", "partitions": "2"}, "append", "has 3 partitions, not 2"),
    ],
)
def test_what_cannot_be_written_is_told(site, options, mode, told):
    schema = StructType([StructField("ts", LongType()), StructField("text", StringType())])
    with pytest.raises(h.HolonsError, match=f"(?s){told}"):
        HolonsSource({"path": str(site.directory), **options}).writer(schema, overwrite=mode == "overwrite")


def test_spark_passes_on_what_is_wrong(spark, site):
    with pytest.raises(PySparkException, match=r"(?s)there is no stream 'nothing'.*bids"):
        reader(spark, site, stream="nothing").collect()
    frame = spark.createDataFrame([(1, "a")], "ts long, text string")
    with pytest.raises(PySparkException, match="has 3 partitions, not 2"):
        frame.write.format("holons").mode("append").options(stream="bids", partitions="2").save(str(site.directory))


def test_a_stream_without_rows_wants_a_schema(spark, tmp_path):
    DirectorySite(tmp_path).create("quiet", 2)
    with pytest.raises(PySparkException, match="has no rows yet"):
        spark.read.format("holons").load(str(tmp_path), stream="quiet").collect()
    assert spark.read.format("holons").schema("ts long").load(str(tmp_path), stream="quiet").collect() == []


def test_a_column_that_was_added_later_is_null_before(spark, tmp_path):
    site = DirectorySite(tmp_path)
    with site.producer("in", 1, "p#1") as log:
        log.append(0, pa.record_batch({"ts": [1]}))
        log.append(0, pa.record_batch({"ts": [2], "price": [5]}))
        log.mark(0, END.ts)
    table = spark.read.format("holons").schema("ts long, price long").load(str(tmp_path), stream="in")
    assert sorted(tuple(row) for row in table.collect()) == [(1, None), (2, 5)]
    found = spark.read.format("holons").load(str(tmp_path), stream="in")
    assert found.columns == ["ts", "price"]
    assert found.count() == 2


def test_a_column_may_be_added_or_left_out_but_keeps_its_type(spark, tmp_path):
    def write(text: str, *rows: tuple) -> None:
        frame = spark.createDataFrame(list(rows), text).coalesce(1)
        frame.write.format("holons").mode("append").option("stream", "in").save(str(tmp_path))

    write("ts long, price long", (1, 5))
    write("ts long, price long, note string", (2, 6, "new"))
    write("ts long", (3,))
    with pytest.raises(PySparkException, match="column 'price' of 'in' is bigint, not string"):
        write("ts long, price string", (4, "x"))
    table = spark.read.format("holons").schema("ts long, price long, note string").load(str(tmp_path), stream="in")
    assert sorted(map(tuple, table.collect())) == [(1, 5, None), (2, 6, "new"), (3, None, None)]


def test_rows_that_were_set_aside_are_tables(spark, tmp_path):
    site = DirectorySite(tmp_path)
    rows = pl.DataFrame({"ts": [10, None, 2_000_000, 5], "n": [1, 2, 3, 4]})
    site.load({"in": [rows]})

    class Count(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

        def process(self, events):
            self.n.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.n[window]}

    with h.run(h.job(Count(), "in", name="count"), log=tmp_path, engine="embedded", nodes=1) as run:
        run.wait(600)
    dead = reader(spark, site, job="count", channel="dead").collect()
    assert [(row.n, row._offset, row._reason) for row in dead] == [(2, 1, "no time in column 'ts'")]
    assert [row.n for row in reader(spark, site, job="count", channel="late").collect()] == [4]


def test_a_damaged_segment_is_an_error_and_not_fewer_rows(spark, site):
    row, damaged = (50).to_bytes(8, "little") + (60).to_bytes(8, "little"), 0
    for file in (site.directory / "input").rglob("data.arrows"):
        data = file.read_bytes()
        damaged += data.count(row)
        file.write_bytes(data.replace(row, b"x" * 16))
    assert damaged
    with pytest.raises(PySparkException, match=r"damaged|checksum"):
        reader(spark, site, stream="bids").collect()


def test_two_queries_do_not_share_a_checkpoint(spark, site, tmp_path):
    def start():
        stream = spark.readStream.format("holons").option("stream", "bids").load(str(site.directory))
        return (
            stream.writeStream.format("holons")
            .options(stream="copy", partitions="3", checkpointLocation=str(tmp_path / "checkpoint"))
            .start(str(tmp_path / "site"))
        )

    first = start()
    first.processAllAvailable()
    second = start()  # Spark ends the one before
    second.processAllAvailable()
    assert not first.isActive
    second.stop()
    assert sum(map(len, rows_in(DirectorySite(tmp_path / "site"), "copy").values())) == 30


# --- names ------------------------------------------------------------------------------------------------------------


class Copies(h.Program):
    def process(self, events):
        for channel in ("raw/copies", "..", "Köln"):
            self.output(events, channel=channel)


def test_streams_jobs_and_channels_may_have_any_name(spark, tmp_path):
    job = h.job(Copies(), "in/put ..", name="Jöb /")
    with h.run(
        job, {"in/put ..": [pl.DataFrame({"ts": [1, 2]})]}, nodes=1, log=tmp_path, spark_session=spark
    ) as running:
        results = running.wait().results()
    site = DirectorySite(tmp_path)
    for channel in ("raw/copies", "..", "Köln"):
        assert results.count(channel) == reader(spark, site, job="Jöb /", channel=channel).count() == 2
    copies = reader(spark, site, stream="in/put ..")
    copies.write.format("holons").mode("append").options(stream="../copies", txnAppId="..", txnVersion="0").save(
        str(tmp_path)
    )
    assert reader(spark, site, stream="../copies").count() == 2
    assert site.streams().keys() == {"in/put ..", "../copies"}


@pytest.mark.parametrize("option", ["stream", "job", "channel", "txnAppId"])
def test_options_with_impossible_names_are_refused(option, site):
    place = {"path": str(site.directory), "stream": "bids", "job": "bids"}
    del place["stream" if option in ("job", "channel") else "job"]
    with pytest.raises(BadName, match="U\\+001B"):
        SourceOptions.of({**place, option: "\x1b[0m"})
