"""The bench measures real runs: every result is checked, and a wrong one is not timed."""

import io

import numpy as np
import pytest
from rich.console import Console

from holons.bench import node
from holons.errors import InvariantBroken

BIDS = node.Bids(events=30_000, partitions=3, seconds=4, auctions=50)


def test_every_case_gives_flat_records_and_a_line_of_the_table():
    records = node.run(30_000, repeat=1, partitions=3, seconds=4, auctions=50)
    assert {tuple(record) for record in records} == {("bench", "case", "system", "metric", "value", "unit")}
    assert len({record["case"] for record in records}) == 3
    assert all(record["value"] > 0 for record in records)
    out = io.StringIO()
    node.show(records, Console(file=out, width=200))
    assert all(record["case"] in out.getvalue() for record in records)


@pytest.mark.parametrize("case", node._cases(BIDS.auctions), ids=lambda case: type(case.program).__name__)
def test_a_wrong_result_is_noticed(case, tmp_path):
    BIDS.write(tmp_path / "input")
    expected = case.expected(BIDS)
    place = sorted(expected)[-1]
    with pytest.raises(InvariantBroken, match="1 of"):
        node.measure(case, BIDS, tmp_path / "input", tmp_path / "run", expected | {place: expected[place] + 1})


def test_what_is_expected_covers_all_bids():
    counts = node._counts(BIDS)
    assert sum(counts.values()) == BIDS.events
    prices = np.concatenate([columns["price"] for part in range(3) for columns in BIDS.batches(part)])
    assert max(node._highest(BIDS).values()) == prices.max()
    assert {window for window, _ in node._averages(BIDS)} == set(range(4))
