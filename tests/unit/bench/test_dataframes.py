"""The benchmark of DataFrames: both systems do the same, and results are checked."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from holons.errors import InvariantBroken
from holons_bench import dataframes

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def records():
    return dataframes.run(8_000, repeat=1, partitions=2, auctions=10)


def test_every_case_gives_flat_records_for_both_and_a_line_of_the_table(records):
    cases = {record["case"] for record in records}
    assert len(cases) == 3
    for case in cases:
        of_it = {(record["system"], record["metric"]): record["value"] for record in records if record["case"] == case}
        assert of_it["holons", "rows"] == of_it["spark", "rows"] == 8_000
        assert of_it["holons", "cost"] == of_it["holons", "seconds"] / of_it["spark", "seconds"]
    out = io.StringIO()
    dataframes.show(records, Console(file=out, width=200))
    assert all(case in out.getvalue() for case in cases)


def test_a_wrong_result_is_noticed(monkeypatch):
    monkeypatch.setattr(dataframes.frames, "highest", lambda *_: {(0, 0): 1})
    with pytest.raises(InvariantBroken, match="highest bid"):
        dataframes.run(8_000, repeat=1, partitions=2, auctions=10)
