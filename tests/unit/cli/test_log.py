from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.cli.test_app import run

from holons.cli import log as the_log
from holons.errors import BadInput
from holons.node.messages import Claim, Heartbeat, Running
from holons.streams import StreamFolder
from holons.wcrdt import Delta, Seal
from holons.wire import encode

RUNNING = Running("shares", 1, 0, 2, 120, 5, False, True, 0, (0,))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    with StreamFolder(tmp_path / "input").open("bids", 2, "producer#1") as log:
        log.append(0, pa.record_batch({"ts": [1, 5_000_000, 3], "kind": ["bid", "ask", None]}))
        log.mark(0, 9)
        log.append(1, pa.record_batch({"ts": [7], "kind": ["bid"]}))
    with StreamFolder(tmp_path / "output").open("bids", 1, "node-1#1") as log:
        log.append(0, pa.record_batch({"n": [4]}))
    for stream, message in {
        "heartbeats": encode(Heartbeat("node-1#1", 7, (RUNNING,), True)),
        "control": encode(Claim("shares", 1, 0, 2, "node-1#1")),
        "sync-shares": Delta(0, 1, 0, 1_000_000, (Seal(0, 0, b"abc"),)).encode(),
        "notes": b"hello",
    }.items():
        with StreamFolder(tmp_path / "shared").open_shared(stream, "node-1#1") as shared:
            shared.append(message)
            shared.append(message)
    return tmp_path


def records(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ls_lists_every_stream_with_what_its_header_says(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("log", "ls", str(site), "--json", "-") == 0
    told = {record["stream"]: record for record in records(capsys)}
    assert list(told) == [
        "input/bids",
        "output/bids",
        "shared/control",
        "shared/heartbeats",
        "shared/notes",
        "shared/sync-shares",
    ]
    bids, heartbeats = told["input/bids"], told["shared/heartbeats"]
    assert (bids["kind"], bids["partitions"], bids["entries"], bids["writers"]) == ("rows", 2, 5, ["producer#1"])
    assert (heartbeats["kind"], heartbeats["entries"], heartbeats["writers"]) == ("shared", 2, ["node-1#1"])
    assert bids["bytes"] > 0
    assert run("log", "ls", str(site)) == 0
    assert "producer#1" in capsys.readouterr().out


@pytest.mark.parametrize(("width", "headings"), [(60, 3), (80, 4), (120, 6)])
def test_ls_shows_names_whole_and_leaves_out_what_matters_less(
    site: Path, width: int, headings: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    names = [f"pairs-of-clicks-0-bdb20b38/{channel}" for channel in ("slide", "sliding", "sessions")]
    for name in names:
        with StreamFolder(site / "output").open(name, 1, "node-1#338f76ae") as log:
            log.append(0, pa.record_batch({"n": [4]}))
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("log", "ls", str(site)) == 0
    lines = capsys.readouterr().out.splitlines()
    (heading,) = [line for line in lines if line.startswith("┃")]
    assert (
        heading.strip("┃").replace("┃", " ").split()
        == (["stream", "partitions", "entries", "kind", "on", "disk", "writers"][: headings + (headings > 4)])
    )
    cells = [line.strip("│").split("│")[0].strip() for line in lines if line.startswith("│")]
    assert all(f"output/{name}" in "".join(cells) for name in names)
    if width >= 80:
        assert all(f"output/{name}" in cells for name in names)


def test_nothing_is_written_by_looking(site: Path):
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    for command in (
        ["ls", str(site)],
        ["head", "input/bids", "--log", str(site)],
        ["stat", "heartbeats", "--log", str(site)],
    ):
        assert run("log", *command) == 0
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before


def test_head_and_tail_show_rows_and_marks_at_their_places(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("log", "head", "input/bids", "--log", str(site), "-n", "1", "--json", "-") == 0
    assert records(capsys) == [
        {"partition": 0, "offset": 0, "row": {"ts": 1, "kind": "bid"}},
        {"partition": 1, "offset": 0, "row": {"ts": 7, "kind": "bid"}},
    ]
    assert run("log", "tail", "input/bids", "--log", str(site), "-n", "2", "--partition", "0", "--json", "-") == 0
    assert records(capsys) == [
        {"partition": 0, "offset": 2, "row": {"ts": 3, "kind": None}},
        {"partition": 0, "offset": 3, "mark": 9},
    ]
    assert run("log", "head", "input/bids", "--log", str(site), "--offset", "2", "-n", "9") == 0
    told = capsys.readouterr().out
    assert "mark: 1970-01-01 00:00:00.000009" in told
    assert "null" in told
    assert "ask" not in told


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ("heartbeats", "heartbeat 7, leaving: shares/1 at 120 (parked)"),
        ("control", "node-1#1 takes partition 1 of shares (slot 0, epoch 2)"),
        ("sync-shares", "partition 1 sealed (1970-01-01 00:00:00, 1970-01-01 00:00:01]: 1 panes, 3 bytes"),
        ("notes", "5 bytes: b'hello'"),
    ],
)
def test_messages_are_told_in_words(site: Path, stream: str, told: str, capsys: pytest.CaptureFixture[str]):
    assert run("log", "tail", stream, "--log", str(site), "-n", "1", "--json", "-") == 0
    assert records(capsys) == [{"writer": "node-1#1", "position": 1, "message": told}]


def test_a_broken_message_is_told_in_words():
    assert "not a heartbeat" in the_log.in_words("heartbeats", b"\x00")


def test_stat_tells_each_partition(site: Path, capsys: pytest.CaptureFixture[str]):
    assert run("log", "stat", "input/bids", "--log", str(site), "--json", "-") == 0
    first, second = records(capsys)
    assert first | {"bytes": 0} == {
        "partition": 0,
        "start": 0,
        "end": 4,
        "rows": 3,
        "marks": 1,
        "bytes": 0,
        "first": 1,
        "last": 5_000_000,
    }
    assert (second["rows"], second["marks"]) == (1, 0)
    assert run("log", "stat", "heartbeats", "--log", str(site), "--json", "-") == 0
    assert records(capsys) == [{"writer": "node-1#1", "start": 0, "end": 2}]
    assert run("log", "stat", "output/bids", "--log", str(site)) == 0
    assert "on disk" in capsys.readouterr().out


def test_stat_takes_the_only_column_of_times_and_else_asks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    when = pa.array([1_000_000, 61_000_000], pa.timestamp("us", "UTC"))
    with StreamFolder(tmp_path / "input").open("orders", 1, "producer#1") as log:
        log.append(0, pa.record_batch({"when": when, "n": [1, 2]}))
    with StreamFolder(tmp_path / "input").open("trips", 1, "producer#1") as log:
        log.append(0, pa.record_batch({"begin": when, "finish": when, "mile": [7, 8]}))
    assert run("log", "stat", "orders", "--log", str(tmp_path), "--json", "-") == 0
    (record,) = records(capsys)
    assert (record["first"], record["last"]) == ("1970-01-01T00:00:01+00:00", "1970-01-01T00:01:01+00:00")
    for stream, arguments, said in [
        ("orders", (), ""),
        ("trips", (), "trips has no column ts, and not one column of times: say which"),
        ("trips", ("--time", "begin"), ""),
        ("trips", ("--time", "end"), "trips has no times in 'end': say which"),
    ]:
        assert run("log", "stat", stream, "--log", str(tmp_path), *arguments) == 0
        printed = capsys.readouterr().out
        assert said in printed
        assert ("say which" in printed) == bool(said)


def test_following_goes_on_with_what_comes(site: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt
        with StreamFolder(site / "output").open("bids", 1, f"node-2#{len(waits)}") as log:
            log.append(0, pa.record_batch({"n": [10 * len(waits)]}))

    monkeypatch.setattr(the_log.clock, "sleep_s", wait)
    assert run("log", "tail", "output/bids", "--log", str(site), "--follow", "--json", "-") == 0
    assert [(record["offset"], record["row"]["n"]) for record in records(capsys)] == [(0, 4), (1, 10), (2, 20)]


def test_a_trimmed_stream_begins_later(site: Path):
    with StreamFolder(site / "input").open("bids", 2, "trimmer#1") as log:
        log.trim(0, 2)
    assert StreamFolder(site / "input").describe("bids").extents == {0: (2, 4), 1: (0, 1)}


def test_a_stream_that_this_process_has_open_can_be_described(site: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(site)
    with StreamFolder(site / "input").open("bids", 2, "reader#1") as log:
        assert log.end(1) == 1
        assert StreamFolder("input").describe("bids").entries == 5


def test_a_damaged_stream_is_told_and_hides_no_other(site: Path, capsys: pytest.CaptureFixture[str]):
    (data,) = (site / "input").rglob("data.arrows")
    data.write_bytes(data.read_bytes()[:100])
    assert run("log", "ls", str(site)) == 1
    told = capsys.readouterr().out
    assert "damaged" in told
    assert "\ninput/bids: " in told
    assert "shared/heartbeats" in told
    assert run("log", "head", "input/bids", "--log", str(site)) == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["head", "bids"], "could be one of 2 streams"),
        (["head", "asks"], "no stream 'asks'"),
        (["head", "input/bids", "--partition", "2"], "no partition 2"),
        (["head", "heartbeats", "--partition", "0"], "has no partitions"),
    ],
)
def test_what_is_not_there_is_told(site: Path, arguments: list[str], told: str, capsys):
    assert run("log", *arguments, "--log", str(site)) == 1
    assert told in capsys.readouterr().err


def test_there_must_be_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("log", "ls", str(tmp_path / "no")) == 1
    assert run("log", "ls", str(tmp_path)) == 0
    assert "no streams" in capsys.readouterr().out
    with pytest.raises(BadInput, match="no stream"):
        StreamFolder(tmp_path).describe("bids")
