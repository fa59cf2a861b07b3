"""What Arrow can hold and polars or Python cannot, and what becomes of it."""

import datetime
from contextlib import closing
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.arrow import python_rows, readable, unreadable, whole
from holons.engines.collecting import emitted_by
from holons.engines.directory_site import DirectorySite
from holons.engines.memory_site import MemorySite
from holons.engines.results import Results
from holons.errors import BadInput
from holons.node import Node, Site, submit
from holons.windows import END

PARTS = [pa.array([1, 2]), pa.array(["a"])]
UNION = pa.UnionArray.from_dense(pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), PARTS)
INTERVAL = pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0])])
WIDE = pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal256(60, 2))
UNREADABLE = {
    "dense union": (UNION, ["1", "a", "2"]),
    "sparse union": (
        pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]),
        ["1", "b", "3"],
    ),
    "interval": (
        INTERVAL,
        ["MonthDayNano(months=1, days=2, nanoseconds=3)", None, "MonthDayNano(months=0, days=0, nanoseconds=0)"],
    ),
    "decimal of 256 bits": (WIDE, ["1.50", None, "-2.00"]),
    "list of unions": (pa.ListArray.from_arrays([0, 1, 1, 3], UNION), ["[1]", "[]", "['a', 2]"]),
    "struct of decimals": (
        pa.StructArray.from_arrays([WIDE], ["x"]),
        ["{'x': Decimal('1.50')}", "{'x': None}", "{'x': Decimal('-2.00')}"],
    ),
    "list view": (pa.array([[1], None, [2, 3]], pa.list_view(pa.int64())), ["[1]", None, "[2, 3]"]),
    "unknown time zone": (
        pa.array([0, None, 1], pa.timestamp("s", "Nowhere/X")),
        ["1970-01-01 00:00:00", None, "1970-01-01 00:00:01"],
    ),
}
PLAIN = {
    "run ends": (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8])), [7, 7, 8]),
    "extension": (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 1], pa.int8())), [True, False, True]),
    "half floats": (pa.array([1, 2, None], pa.float16()), [1.0, 2.0, None]),
    "views of text": (pa.array(["a", None, "b"], pa.string_view()), ["a", None, "b"]),
    "map": (pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())), [[("a", 1)], [], None]),
}


class Prices(h.Program):
    def process(self, events):
        self.output(events.select("price"))


class Odd(h.Program):
    def process(self, events):
        self.output(events.select(pl.col("odd")))


class OddRow(h.Program):
    def each(self, event):
        self.output({"odd": str(event["odd"])})


class OddMask(h.Program):
    def process(self, events):
        self.output(events.where(pl.col("odd").is_not_null()))


def table(**columns) -> pa.Table:
    """Three rows: one on time, one late, one without a time."""
    return pa.table({"ts": [5_000_000, 1, None], "price": [3, 5, 8], **columns})


def results(job: h.Job, rows: pa.Table, site: Site | None = None) -> h.Results:
    """Runs a job over rows, by one node that takes its turns here."""
    site = site or MemorySite()
    with closing(site.producer("in", 1, "producer#1")) as log:
        for batch in rows.to_batches():
            log.append(0, batch)
        log.mark(0, END.ts)
    ports = site.ports("node-1#1")
    node = Node("node-1#1", ports)
    version = submit(job, ports).id
    node.add_job(version, job)
    for _ in range(400):
        node.tick()
        if node.failures:
            raise next(iter(node.failures.values()))
        if node.finished:
            return Results(emitted_by(site, job, version), job.channels)
        site.clock.sleep_s(0.001)
    raise AssertionError("the job did not finish")


@pytest.mark.parametrize("columns", [None, ["price"]])
@pytest.mark.parametrize("disk", [False, True])
def test_columns_that_no_program_can_read_are_no_matter_beside_those_it_reads(columns, disk, tmp_path):
    rows = table(**{kind: column for kind, (column, _) in UNREADABLE.items() if not disk or kind != "list view"})
    found = results(h.job(Prices(), "in", columns=columns), rows, DirectorySite(tmp_path) if disk else None)
    assert found.rows("process") == [{"price": 3}]
    (late,), (dead,) = found.rows("late"), found.rows("dead")
    for kind in rows.column_names[2:]:
        text = UNREADABLE[kind][1]
        assert (late[kind], dead[kind]) == (text[1], text[2]), "diverted rows are whole: such a column is text"
        assert found.schema("dead")[kind] == pl.String
    assert found.to_polars("late")["price"].to_list() == [5]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_job_that_reads_such_a_column_fails_with_the_stream_and_the_column(kind):
    with pytest.raises(BadInput, match=r"column 'odd' of stream 'in' cannot be read: it is .* polars has no type for"):
        results(h.job(Odd(), "in", columns=["odd"]), table(odd=UNREADABLE[kind][0]))


@pytest.mark.parametrize(
    "job",
    [
        h.job(Odd(), "in"),
        h.job(OddRow(), "in"),
        h.job(OddMask(), "in"),
        h.job(Prices(), "in", time="odd"),
        h.job(Prices(), "in", time="odd", columns=[]),
        h.source("in").filter(pl.col("odd").is_null()).to("out"),
        h.source("in").window(h.Tumbling("1s")).agg(n=h.max("odd")).to("out"),
    ],
    ids=["all columns", "each", "mask", "time", "only time", "pipeline", "measure"],
)
def test_a_job_may_read_such_a_column_in_many_ways_and_fails_in_one(job):
    with pytest.raises(BadInput, match=r"column 'odd' of stream 'in' cannot be read: it is month_day_nano_interval"):
        results(job, table(odd=INTERVAL))


@pytest.mark.parametrize("kind", PLAIN)
def test_other_columns_of_rare_types_are_read_as_they_are(kind):
    column, values = PLAIN[kind]
    found = results(h.job(Odd(), "in"), table(odd=column))
    assert [row["odd"] for channel in ("process", "late", "dead") for row in found.rows(channel)] == values


def test_two_columns_of_one_name_are_no_matter_beside_those_that_are_read():
    columns = [pa.array([5_000_000, 1]), pa.array([3, 5]), pa.array([1, 2]), pa.array(["a", "b"])]
    rows = pa.table(columns, ["ts", "price", "odd", "odd"])
    for read in (None, ["price"]):
        found = results(h.job(Prices(), "in", columns=read), rows)
        assert found.rows("process") == [{"price": 3}]
        (late,) = found.rows("late")
        assert (late["odd"], late["odd#2"]) == (2, "b")
    with pytest.raises(BadInput, match="column 'odd' of stream 'in' cannot be read: there are 2 columns of that name"):
        results(h.job(Odd(), "in"), rows)


def test_names_that_are_made_for_columns_are_new():
    rows = pa.record_batch([pa.array([n]) for n in range(4)], ["a", "a", "a#2", "a"])
    assert whole(rows).schema.names == ["a", "a#3", "a#2", "a#4"] or len(set(whole(rows).schema.names)) == 4
    assert readable(rows).schema.names == ["a#2"]
    assert set(unreadable(rows.schema)) == {"a"}


FAR = {
    "s": pa.array([2**62, -(2**62), 10**13, 5], pa.timestamp("s")),
    "ms": pa.array([2**62, -(2**62), 10**16, 5_000], pa.timestamp("ms")),
    "us": pa.array([2**62, -(2**62), 2**61, 5_000_000], pa.timestamp("us")),
    "s with zone": pa.array([2**62, -(2**62), 10**13, 5], pa.timestamp("s", "Europe/Berlin")),
    "date": pa.array([2**31 - 1, -(2**31) + 1, 10**8, 0], pa.int32()).cast(pa.date32()),
    "date of ms": pa.array([2**62, -(2**62), 10**16, 0]).view(pa.date64()),
    "unsigned": pa.array([2**64 - 1, 2**63, 2**61, 5_000_000], pa.uint64()),
    "integer": pa.array([2**63 - 1, -(2**63), 2**61, 5_000_000]),
}


@pytest.mark.parametrize("unit", FAR)
def test_times_far_away_are_out_of_range_and_move_no_clock(unit):
    found = results(h.job(Prices(), "in"), pa.table({"ts": FAR[unit], "price": [1, 2, 3, 4]}))
    dead = found.rows("dead")
    assert [row["price"] for row in dead] == [1, 2, 3]
    assert {row["_reason"] for row in dead} == {"the time in column 'ts' is out of range"}
    assert found.rows("process") == [{"price": 4}]
    assert found.to_polars("dead")["price"].to_list() == [1, 2, 3]


def test_times_that_no_calendar_of_python_reaches_are_text_in_rows():
    rows = pa.record_batch({"at": pa.array([10**12, 0, None], pa.timestamp("s")), "n": [1, 2, 3]})
    assert python_rows(rows) == [
        {"at": "<value out of range: 1000000000000>", "n": 1},
        {"at": datetime.datetime(1970, 1, 1), "n": 2},  # noqa: DTZ001
        {"at": None, "n": 3},
    ]
    nested = pa.record_batch({"at": pa.array([[10**12, 0]], pa.list_(pa.timestamp("s")))})
    assert python_rows(nested) == [{"at": ["<value out of range: 1000000000000>", datetime.datetime(1970, 1, 1)]}]  # noqa: DTZ001
