"""Users' files, damaged in every way: what comes of them is rows, dead rows, or an error that names the file."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pyarrow as pa
from pyarrow import csv, parquet
from tests.fuzz.fuzzing import Decoder
from tests.fuzz.register import decoder
from tests.fuzz.stored import _folder

import holons as h
from holons import wire
from holons.arrow import python_rows
from holons.engines.spark import folding
from holons.errors import BadInput, HolonsError
from holons.streams.files import read_files
from holons.windows import END

DECLARED = (BadInput,)
TABLE = pa.table(
    {
        "ts": [1, 1_000_000, 2_500_000, 7_000_000],
        "user": ["ann", None, "zoë", 'b,"ob"\n'],
        "spent": [0.5, 1e300, None, -3.0],
        "tags": [["a"], [], None, ["b", "c"]],
    }
)
FLAT = TABLE.drop_columns("tags")
SCHEMA = FLAT.schema


class Prices(h.Program):
    """Reads two columns of such a file."""

    total = h.WCRDT(h.Sum("float"), h.Tumbling("1s"))

    def process(self, events):
        self.total.insert(events["spent"], events.ts)
        self.output(events.select("user"))

    def on_window(self, window):
        yield {"start": window.start, "total": self.total[window]}


JOB = h.job(Prices(), "files")


def run(path: Path, schema: pa.Schema | None = None) -> None:
    """Runs the job over a file, on one partition."""
    log = read_files(path, 1, schema=schema)
    state, part = JOB.open_state(1), JOB.open_run(0, 1)
    for chunk in log.read(0, 0, 1_000_000):
        assert chunk.rows is not None
        part.feed(chunk.rows, chunk.offset)
    part.mark(END.ts, log.end(0))
    happened = True
    while happened:
        happened = part.step(state)
        outputs, messages = part.drain()
        for message in messages:
            happened |= state.receive(wire.encode(message))
        for output in outputs:
            python_rows(output.table)


def files(name: str, samples: list[bytes], schema: pa.Schema | None = None) -> Decoder:
    path = _folder() / name

    def read(data: bytes) -> None:
        path.write_bytes(data)
        try:
            run(path, schema)
        except BadInput as error:
            if "file" not in error.where and "column" not in str(error):
                raise AssertionError("neither the file nor the column is named") from error
            raise

    return Decoder(name, samples, read, (HolonsError,), structured=False, cost=20)


def _csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


_LINES = (
    b'{"ts": 1, "user": "ann", "spent": 0.5, "tags": ["a"]}\n'
    b'{"ts": 1000000, "user": null, "spent": 1e300}\n'
    b'{"ts": 2500000, "user": "zo\xc3\xab", "spent": null, "more": {"a": [1, 2]}}\n'
)


@decoder("holons.streams.files:_decoded")
def csv_files() -> Decoder:
    odd = b'ts,user,spent\r\n1,"a\rb",0.5\r\n"2","",\r\n3,\xef\xbb\xbf,nan\r\n'
    return files("rows.csv", [_csv(FLAT), odd, b"\xef\xbb\xbf" + _csv(FLAT)])


@decoder()
def csv_files_with_a_schema() -> Decoder:
    return files("rows.csv", [_csv(FLAT)], SCHEMA)


@decoder("holons.streams.json_lines:_OBJECT", "holons.streams.json_lines:_is_object")
def json_lines_files() -> Decoder:
    odd = b'{"ts": 1, "spent": NaN}\r\n \n{"ts": 2, "user": "\\ud83d\\ude00"}'
    return files("rows.jsonl", [_LINES, odd])


@decoder()
def json_lines_files_with_a_schema() -> Decoder:
    return files(
        "rows.jsonl", [b'{"ts": 1, "user": "ann", "spent": 0.5}\n{"ts": 2, "user": null, "spent": 1}\n'], SCHEMA
    )


@decoder("holons.streams.files:load")
def parquet_files() -> Decoder:
    samples = []
    for options in ({}, {"compression": "zstd", "use_dictionary": False}, {"compression": "none", "version": "1.0"}):
        sink = io.BytesIO()
        parquet.write_table(TABLE, sink, **options)
        samples.append(sink.getvalue())
    return files("rows.parquet", samples)


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table, max_chunksize=2)
    return sink.getvalue()


@decoder("holons.engines.spark.folding:_lengths", "holons.engines.spark.folding:_decoded")
def files_of_folds() -> Decoder:
    """Files that tasks read themselves, in a task."""
    folder = _folder()
    paths = [folder / f"rows.{kind}" for kind in ("parquet", "arrow")]

    def read(data: bytes) -> None:
        refused: list[BadInput] = []
        for path in paths:
            path.write_bytes(data)
            try:
                for stretch in folding.stretches([path], 1):
                    for table in folding._tables(stretch, None):
                        pl.from_arrow(table)
            except BadInput as error:
                refused.append(error)
        assert all("file" in error.where for error in refused), "the file is not named"
        if len(refused) == len(paths):
            raise refused[0]

    samples = [_arrow(TABLE), _arrow(pa.table({"kind": TABLE["user"].dictionary_encode()}))]
    sink = io.BytesIO()
    parquet.write_table(TABLE, sink, row_group_size=3)
    return Decoder("files of folds", [*samples, sink.getvalue()], read, DECLARED, structured=False, cost=20)
