"""`h.fold`: plans without an exchange, rounds that are killed, and what it refuses."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pyspark.sql import SparkSession, functions
from tests.owners import open_to_others

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.session import session
from holons.errors import BadInput, CheckpointLost, JobRunning, NotFoldable, ProgramFailed
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.streams.folder import StoredLog
from holons.windows import END

pytestmark = pytest.mark.spark
HOUR_US = 3_600_000_000
PARTITIONS = 3


class Hourly(h.Program):
    """Each hour's events and the dearest of them, of equals the first."""

    emit = "once"
    count = h.WCRDT(h.GCounter(), h.Tumbling("1h"))
    dearest = h.WCRDT(h.TopK(1), h.Tumbling("1h"))

    def process(self, events):
        self.count.insert(1, events.ts)
        self.dearest.insert((events["price"], events["id"]), events.ts)

    def on_window(self, window):
        for price, which in self.dearest[window]:
            yield {"hour": window.start, "count": self.count[window], "price": price, "id": which}


class Failing(Hourly):
    def process(self, events):
        raise ZeroDivisionError("of my own")


class Remembering(Hourly):
    seen = h.Local(0)


JOB = h.job(Hourly(), "sales", disorder="10m")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return session()


def year(partition: int, rows: int = 4_000, hours: int = 8_760) -> pl.DataFrame:
    """A year's rows of one partition, somewhat out of order."""
    rng = np.random.default_rng(partition)
    ts = np.sort(rng.integers(0, hours * HOUR_US, rows)) - rng.integers(0, HOUR_US // 10, rows)
    return pl.DataFrame({"ts": ts, "price": rng.integers(0, 50, rows), "id": np.arange(rows) * PARTITIONS + partition})


@pytest.fixture(scope="module")
def a_year() -> list[pl.DataFrame]:
    return [year(partition) for partition in range(PARTITIONS)]


@pytest.fixture(scope="module")
def expected(a_year) -> bytes:
    return canonical(run_oracle(JOB, {"sales": [[log, END] for log in a_year]}, rows_per_call=5_000))


def numbered(logs: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(
        log.with_columns(pl.lit(place).alias("_partition"), pl.int_range(pl.len()).alias("_offset"))
        for place, log in enumerate(logs)
    )


def frame_of(spark, logs: list[pl.DataFrame]):
    return spark.createDataFrame(numbered(logs).to_arrow(compat_level=pl.CompatLevel.oldest()))


# --- a year, every way ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_year_of_hours_is_the_same_by_batch_by_files_by_rounds_and_by_nodes(spark, a_year, expected, tmp_path):
    assert h.fold(JOB, frame_of(spark, a_year).repartition(4)).results().canonical() == expected

    for place, log in enumerate(a_year):
        log.write_parquet(tmp_path / f"{place}.parquet", row_group_size=3_000)
    assert h.fold(JOB, tmp_path, columns=["ts", "price", "id"]).results().canonical() == expected

    rng, site = random.Random(5), DirectorySite(tmp_path / "site")
    site.load({"sales": [[log] for log in a_year]})
    for _ in range(4):
        stream = (
            spark.readStream.format("holons")
            .options(stream="sales", positions="true", maxRowsPerTrigger=str(rng.randint(2_000, 4_000)))
            .load(str(site.directory))
        )
        query = h.fold(JOB, stream, partitions=PARTITIONS, log=site.directory, trigger={"availableNow": True})
        query.query.processAllAvailable() if rng.random() < 0.5 else query.wait(0.5)
        query.stop()
    stream = spark.readStream.format("holons").options(stream="sales", positions="true").load(str(site.directory))
    query = h.fold(JOB, stream, partitions=PARTITIONS, log=site.directory, trigger={"availableNow": True})
    assert query.wait(600).finish().results().canonical() == expected
    table = spark.read.format("holons").load(str(site.directory), job="Hourly")
    assert table.count() == sum(1 for _ in query.results().rows())

    nodes = h.run(JOB, {"sales": [[log, END] for log in a_year]}, nodes=2).wait().results()
    assert nodes.canonical() == expected


def test_the_plan_has_no_exchange(spark, a_year, tmp_path):
    numbered(a_year).write_parquet(tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path))
    plan = h.fold_plan(JOB, frame)._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert "Exchange" not in plan
    shuffled = h.fold_plan(JOB, frame.repartition(3))._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" in shuffled  # the test can see one


def test_files_with_a_partition_column_are_folded_by_it(spark, a_year, expected, tmp_path):
    rows = numbered(a_year)
    rows.filter(pl.col("_offset") % 2 == 0).write_parquet(tmp_path / "even.parquet")
    rows.filter(pl.col("_offset") % 2 == 1).write_ipc(tmp_path / "odd.arrow", compat_level=pl.CompatLevel.oldest())
    assert h.fold(JOB, tmp_path, partition="_partition", order="_offset").results().canonical() == expected


class Named(h.Program):
    emit = "once"
    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1d"))

    def __init__(self, names: h.Table) -> None:
        self.names = names

    def process(self, events):
        self.n.insert((self.names.lookup(events["price"], "name"), 1), events.ts)

    def on_window(self, window):
        yield from ({"name": name, "n": n} for name, n in sorted(self.n[window].items()))


def test_a_table_from_spark_travels_with_the_job_and_makes_its_id(spark, a_year):
    names = spark.createDataFrame([(n, f"name {n % 4}") for n in range(50)], "price long, name string")
    job = h.job(Named(h.table(names.repartition(3), key="price")), "sales", disorder="10m")
    assert job.digest == h.job(Named(h.table(names, key="price")), "sales", disorder="10m").digest
    fewer = h.job(Named(h.table(names.limit(10), key="price")), "sales", disorder="10m")
    assert job.digest != fewer.digest
    logs = [log.head(500) for log in a_year]
    expected = canonical(run_oracle(job, {"sales": [[log, END] for log in logs]}, rows_per_call=500))
    assert h.fold(job, frame_of(spark, logs)).results().canonical() == expected
    assert h.run(job, {"sales": logs}, nodes=2).wait().results().canonical() == expected
    with pytest.raises(BadInput, match="a stream is not a table"):
        h.table(spark.readStream.format("rate").load(), key="value")


# --- rounds -----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "at",
    [
        pytest.param("before the rows", marks=pytest.mark.slow),
        "before the state",
        pytest.param("after the state", marks=pytest.mark.slow),
    ],
)
def test_a_round_that_dies_anywhere_is_there_once(spark, a_year, tmp_path, monkeypatch, at):
    from holons.engines.spark import rounds

    logs = [log.head(1_000) for log in a_year]
    site = DirectorySite(tmp_path)
    site.load({"sales": [[log] for log in logs]})
    died: list[int] = []
    put, store = StoredLog.put, rounds.DirectoryStore.put

    def fails() -> None:
        if len(died) < 2:
            died.append(1)
            raise OSError("killed")

    def dying_put(self, *given):
        if at == "before the rows":
            fails()
        put(self, *given)

    def dying_store(self, name, position, data):
        if at == "before the state":
            fails()
        store(self, name, position, data)
        if at == "after the state":
            fails()

    monkeypatch.setattr(StoredLog, "put", dying_put)
    monkeypatch.setattr(rounds.DirectoryStore, "put", dying_store)
    for attempt in range(3):
        stream = (
            spark.readStream.format("holons")
            .options(stream="sales", positions="true", maxRowsPerTrigger="1500")
            .load(str(site.directory))
        )
        query = h.fold(JOB, stream, partitions=PARTITIONS, log=site.directory, trigger={"availableNow": True})
        if attempt < 2:
            with pytest.raises(Exception, match="killed"):
                query.wait(600)
        else:
            query.wait(600)
    assert len(died) == 2
    got = query.finish().results().canonical()
    assert got == canonical(run_oracle(JOB, {"sales": [[log, END] for log in logs]}, rows_per_call=5_000))


def test_a_state_that_is_gone_is_an_error_and_not_a_new_beginning(spark, a_year, tmp_path):
    site = DirectorySite(tmp_path)
    site.load({"sales": [[log.head(1_000)] for log in a_year]})

    def begin():
        stream = (
            spark.readStream.format("holons")
            .options(stream="sales", positions="true", maxRowsPerTrigger="1500")
            .load(str(site.directory))
        )
        return h.fold(JOB, stream, partitions=PARTITIONS, log=site.directory, trigger={"availableNow": True})

    begin().wait(600)
    shutil.rmtree(site.folder("folds", "Hourly") / "state")
    with site.producer("sales", PARTITIONS, "producer#2") as log:
        log.append(0, a_year[0].slice(1_000, 10).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()[0])
    with pytest.raises(CheckpointLost, match=r"the state after batch \d+ is gone"):
        begin().wait(600)


def test_late_rows_are_found_though_tasks_share_a_partition(spark, tmp_path):
    """Rows far ahead in the first task make rows of the second late: the second has to be told."""
    log = pl.DataFrame({"ts": [0, 30 * HOUR_US, HOUR_US, 31 * HOUR_US], "price": [1, 2, 3, 4], "id": [0, 1, 2, 3]})
    site = DirectorySite(tmp_path / "in")
    site.load({"sales": [[log]]})
    stream = spark.readStream.format("holons").options(stream="sales", positions="true").load(str(site.directory))
    stream = stream.repartitionByRange(2, "_offset")
    query = h.fold(JOB, stream, partitions=1, log=tmp_path / "out", trigger={"availableNow": True})
    got = query.wait(600).finish().results()
    assert [row["id"] for row in got.rows("late")] == [2]
    assert got.canonical() == canonical(run_oracle(JOB, {"sales": [[log, END]]}))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drop", "told"),
    [("ts", "no time column 'ts'"), ("_partition", "no partition column"), ("_offset", "no order column")],
)
def test_a_missing_column_is_named(spark, a_year, drop, told):
    with pytest.raises(BadInput, match=told):
        h.fold(JOB, frame_of(spark, a_year).drop(drop))


@pytest.mark.parametrize(("column", "told"), [("ts", "time column"), ("_partition", "partition"), ("_offset", "order")])
def test_a_column_of_a_wrong_type_is_named(spark, a_year, column, told):
    frame = frame_of(spark, a_year).withColumn(column, functions.col(column).cast("string"))
    with pytest.raises(BadInput, match=f"{told}.* is string"):
        h.fold(JOB, frame)


def test_rows_that_belong_nowhere_are_refused(spark, a_year):
    with pytest.raises(BadInput, match="a row of partition 2"):
        h.fold(JOB, frame_of(spark, a_year), partitions=2)
    frame = frame_of(spark, a_year)
    with pytest.raises(BadInput, match="a row without '_offset'"):
        h.fold(JOB, frame.selectExpr("ts", "price", "id", "_partition", "nullif(_offset, 7) as _offset"))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("damage", ["no file of that kind", "cut short", "wrong insides"])
def test_a_damaged_file_is_named(spark, a_year, tmp_path, kind, damage):
    """Its ends are read by the driver, what is inside by tasks."""
    path = tmp_path / f"part.{kind}"
    a_year[0].write_parquet(path) if kind == "parquet" else a_year[0].write_ipc(path)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "no file of that kind": b"ts,price\n1,2\n",
            "cut short": whole[:-30],
            "wrong insides": whole[:8] + b"\xff" * 400 + whole[408:],
        }[damage]
    )
    with pytest.raises(BadInput, match=rf"file .*part\.{kind}") as refused:
        h.fold(JOB, path)
    assert "is it whole?" in refused.value.hint


def test_an_error_of_the_program_says_what_and_where(spark, a_year):
    with pytest.raises(ProgramFailed, match="of my own") as failed:
        h.fold(h.job(Failing(), "sales"), frame_of(spark, a_year))
    assert "partition" in failed.value.where


def test_a_program_that_needs_order_is_told_how_to_get_it(spark, a_year):
    frame, job = frame_of(spark, a_year), h.job(Remembering(), "sales", disorder="10m")
    with pytest.raises(NotFoldable, match="has a Local") as refused:
        h.fold(job, frame.repartition(4))
    assert "one task" in refused.value.hint
    assert h.fold(job, frame.repartition(2, "_partition")).results().rows()


def test_streams_need_to_be_told_where_to_keep_things(spark, tmp_path):
    stream = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "value as _offset", "0 as _partition")
    with pytest.raises(BadInput, match="partitions= and log="):
        h.fold(JOB, stream)
    with pytest.raises(BadInput, match="are for streams"):
        h.fold(JOB, spark.range(1), log=tmp_path)


def test_a_stream_whose_rows_change_is_refused(spark, tmp_path):
    stream = spark.readStream.format("rate").load().groupBy("value").count()
    stream = stream.selectExpr("value as ts", "count as _offset", "0 as _partition")
    with pytest.raises(BadInput, match="cannot be folded") as refused:
        h.fold(JOB, stream, partitions=1, log=tmp_path)
    assert "only be added" in refused.value.hint


def test_two_queries_of_one_name_are_one_too_many(spark, a_year, tmp_path):
    site = DirectorySite(tmp_path)
    site.load({"sales": [[log] for log in a_year]})

    def begin(job=JOB):
        stream = spark.readStream.format("holons").options(stream="sales", positions="true").load(str(site.directory))
        return h.fold(job, stream, partitions=PARTITIONS, log=site.directory)

    with begin(), pytest.raises(JobRunning, match="by another query"):
        begin()
    with pytest.raises(BadInput, match="begun with another program"):
        begin(h.job(Remembering(), "sales", name="Hourly"))


def test_files_that_are_not_there_or_not_readable_are_named(spark, tmp_path):
    with pytest.raises(BadInput, match="no files"):
        h.fold(JOB, tmp_path / "nothing*")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(BadInput, match="cannot read this file"):
        h.fold(JOB, Path(tmp_path))


def test_what_tasks_write_is_its_owners(spark, tmp_path):
    """But for what Spark keeps of its own; that lies in a folder of ours, which nobody else may enter."""
    site, at = DirectorySite(tmp_path / "site", durability="disk"), str(tmp_path / "site")
    rows = spark.createDataFrame([(n, n, n) for n in range(8)], "ts long, price long, id long").repartition(2)
    options = {"stream": "sales", "partitions": "2", "durability": "disk"}
    rows.write.format("holons").mode("append").options(**options).save(at)
    stream = spark.readStream.format("holons").options(stream="sales", positions="true").load(at)
    once = {"availableNow": True}
    h.fold(JOB, stream, partitions=2, log=at, trigger=once, durability="disk").wait(600).finish()
    assert sorted(path.name for path in site.directory.iterdir()) == ["batches", "folds", "input", "output"]
    assert open_to_others(site.directory, besides=frozenset({"spark"})) == []
