"""Tables that programs carry along: part of the job, the same on every node."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import holons as h
from holons.errors import BadInput
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

ITEMS = pl.DataFrame({"item": [3, 1, 2], "category": ["tea", "tools", "tea"]})


class PerCategory(h.Program):
    emit = "once"
    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))

    def __init__(self, items: h.Table) -> None:
        self.items = items

    def process(self, events):
        self.n.insert((self.items.lookup(events["item"], "category"), 1), events.ts)

    def on_window(self, window):
        for category, n in sorted(self.n[window].items()):
            yield {"category": category, "n": n}


def job_of(rows) -> h.Job:
    return h.job(PerCategory(h.table(rows, key="item")), "sales")


def test_the_order_of_rows_does_not_make_another_job_and_other_rows_do():
    assert job_of(ITEMS).digest == job_of(ITEMS.reverse()).digest == job_of(ITEMS.to_arrow()).digest
    assert job_of(ITEMS).digest != job_of(ITEMS.with_columns(category=pl.lit("tea"))).digest


def test_a_parquet_file_is_a_table(tmp_path):
    ITEMS.write_parquet(tmp_path / "items.parquet")
    assert job_of(tmp_path / "items.parquet").digest == job_of(ITEMS).digest


def test_values_are_found_by_key_and_unknown_keys_have_none():
    table = h.table(ITEMS, key="item")
    assert len(table) == 3
    assert table.lookup(pl.Series([2, 9, 1, 2], dtype=pl.Int32), "category").to_list() == ["tea", None, "tools", "tea"]
    assert "3 rows by item" in repr(table)


def test_a_program_with_a_table_gives_the_oracles_bytes():
    job, rows = job_of(ITEMS), pl.DataFrame({"ts": [0, 1, 2, 3], "item": [1, 2, 3, 4]})
    given = {"sales": [[rows, END]]}
    got = h.run(job, given, engine="embedded").wait().results()
    assert got.rows() == [{"category": "tea", "n": 2}, {"category": "tools", "n": 1}]
    assert got.canonical() == canonical(run_oracle(job, given))


@pytest.mark.parametrize(
    ("rows", "key", "told"),
    [
        (ITEMS, "thing", "no column 'thing'"),
        (pl.concat([ITEMS, ITEMS[:1]]), "item", "item 3 is in the table twice"),
        (pl.DataFrame({"item": [1, None]}), "item", "has no 'item'"),
        ([1, 2], "item", "a list is not a table"),
        ("nowhere.parquet", "item", "cannot be read"),
        (pa.table({"item": pa.array(range(5_000_001))}), "item", "more than 5,000,000 rows"),
        (pl.DataFrame({"item": range(3_000_000), "text": "x" * 100}), "item", "MB, which every node would hold"),
    ],
)
def test_what_is_not_a_table_is_refused(rows, key, told):
    with pytest.raises(BadInput, match=told):
        h.table(rows, key)


def test_a_lookup_that_cannot_be_says_so():
    table = h.table(ITEMS, key="item")
    with pytest.raises(BadInput, match="no column 'price'"):
        table.lookup(pl.Series([1]), "price")
    with pytest.raises(BadInput, match="cast one"):
        table.lookup(pl.Series(["one"]), "category")
