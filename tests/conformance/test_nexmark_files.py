"""q10: bids in files by time, each once, whoever writes them and however often."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holons as h
from holons.cli.nexmark_engines import embedded
from holons.cli.run import RunOptions, main
from holons.engines.directory_site import DirectorySite
from holons.engines.results import Results
from holons.nexmark import Load, answer, query
from holons.nexmark.verify import compare, streams_of, table_of

duckdb = pytest.importorskip("duckdb")

HOURS = Load(600, seed=2, rate=1, group=100, partitions=2, start_us=1_436_918_400_000_000 - 330_000_000)
"""Ten minutes around midnight, at an event a second; bids go back and forth over the edge."""
STREAMS = {"bids": streams_of(HOURS, rows=40)["bids"]}


def read_back(directory: Path):
    """The bids in the files, and in which folders they were."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = f"read_parquet('{directory}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
        folders = "concat_ws('-', year, month, day, hour) = strftime(date_time, '%Y-%m-%d-%H')"
        wrong = connection.sql(f"SELECT count(*) FROM {files} WHERE NOT {folders}").fetchall()[0][0]
        return connection.sql(f"SELECT * EXCLUDE (year, month, day, hour) FROM {files}").to_arrow_table(), wrong


def same_as_answer(directory: Path) -> None:
    table, misplaced = read_back(directory)
    expected = answer("q10", {"bids": table_of("bids", STREAMS["bids"])})
    compared = compare("q10", pl.DataFrame(table), expected)
    assert compared.same, compared
    assert misplaced == 0


def test_bids_are_in_files_by_hour_each_once(tmp_path):
    job = query("q10", rate=HOURS.rate, disorder_us=HOURS.disorder_us)
    results = Results.of(embedded()(job, STREAMS), job.layout.channels)
    assert results.to_files(tmp_path, time="date_time") == HOURS.count("bids")
    folders = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")}
    assert folders == {"year=2015/month=07/day=14/hour=23", "year=2015/month=07/day=15/hour=00"}
    same_as_answer(tmp_path)
    assert results.to_files(tmp_path, time="date_time") == 0
    same_as_answer(tmp_path)


def test_a_file_that_is_missing_is_written_again_and_no_other(tmp_path):
    job = query("q10", rate=HOURS.rate, disorder_us=HOURS.disorder_us)
    results = Results.of(embedded()(job, STREAMS), job.layout.channels)
    results.to_files(tmp_path, time="date_time")
    files = sorted(tmp_path.rglob("*.parquet"))
    assert len(files) > 4, "bids go back and forth"
    before = {path: path.stat().st_mtime_ns for path in files}
    lost = files[1]
    lost.rename(lost.with_name(f".{lost.name}.part"))  # as a crash leaves it
    assert results.to_files(tmp_path, time="date_time") == int(lost.name.split(".")[3])
    assert {path: path.stat().st_mtime_ns for path in files if path != lost}.items() <= before.items()
    assert not list(tmp_path.rglob(".*.part"))
    same_as_answer(tmp_path)


def test_results_so_far_are_written_and_then_the_rest(tmp_path):
    job = query("q10", rate=HOURS.rate, disorder_us=HOURS.disorder_us)
    whole = embedded()(job, STREAMS)
    so_far = {channel: {part: rows[:77] for part, rows in parts.items()} for channel, parts in whole.items()}
    for collected in (so_far, whole):
        Results.of(collected, job.layout.channels).to_files(tmp_path, time="date_time")
    same_as_answer(tmp_path)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"time": "expires"}, "no column 'expires'"),
        ({"time": "price", "unit": "week"}, "'week'"),
        ({"time": "url"}, "'url'"),
    ],
)
def test_folders_that_make_no_sense_are_refused(told, message, tmp_path):
    results = Results.of(embedded()(query("q10"), {"bids": [[*STREAMS["bids"][0][:1]]]}), ("q10",))
    with pytest.raises(h.HolonsError, match=message):
        results.to_files(tmp_path, **told)


def test_a_job_on_nodes_logs_bids_to_files_by_hour(tmp_path):
    """`holons run --output --time`, twice: the second time there is nothing to do."""
    app = tmp_path / "app.py"
    app.write_text(
        f"from holons.nexmark import query\njob = query('q10', rate={HOURS.rate}, disorder_us={HOURS.disorder_us})\n"
    )
    DirectorySite(tmp_path / "site").load(STREAMS)
    told = RunOptions(f"{app}:job", 1, tmp_path / "site", output=tmp_path / "out", engine="embedded", time="date_time")
    for _ in range(2):
        (record,) = main(told)
        assert (record["rows"], record["finished"]) == (HOURS.count("bids"), True)
        same_as_answer(tmp_path / "out")
    with pytest.raises(h.HolonsError, match="--time without files"):
        main(replace(told, output=None))
