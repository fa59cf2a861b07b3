"""`holons retain`: what is said counts, and is shown."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from holons.cli.app import app
from holons.engines.directory_site import DirectorySite


def retain(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["retain", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_rules_are_set_shown_and_taken_back(tmp_path):
    assert "for ever" in retain(tmp_path)
    told = retain(tmp_path, "--input", "bids=7d", "--output", "Shares=12h")
    assert "input bids: 1w" in told
    assert "output of job Shares: 12h" in told
    rules = DirectorySite(tmp_path).retention()
    assert (rules.inputs(), rules.outputs()) == ({"bids": 604_800_000_000}, {"Shares": 43_200_000_000})
    rules.consume("dashboard", "bids", [17, 4])
    assert "input bids is read by dashboard, from 17, 4 on" in retain(tmp_path)
    assert "Shares" not in retain(tmp_path, "--output", "Shares=forever")


@pytest.mark.parametrize("rule", ["bids", "=7d"])
def test_a_rule_without_a_name_or_a_time_is_refused(tmp_path, rule):
    from holons.errors import BadInput

    with pytest.raises(BadInput, match="says not how long"):
        CliRunner().invoke(app, ["retain", str(tmp_path), "--input", rule], catch_exceptions=False)
