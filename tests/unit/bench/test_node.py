"""The bench measures real runs: every result is checked, and a wrong one is not timed."""

import io

import pytest
from rich.console import Console

from holons.engines.directory_site import DirectorySite
from holons.errors import InvariantBroken
from holons_bench import node
from holons_bench.bids import Bids

BIDS = Bids(events=30_000, partitions=3, seconds=4, auctions=50)


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
    site = DirectorySite(tmp_path)
    BIDS.write(site, node.STREAM)
    expected = case.expected(BIDS.totals())
    place = sorted(expected)[-1]
    with pytest.raises(InvariantBroken, match="1 of"):
        node.measure(case, site, expected | {place: expected[place] + 1})
