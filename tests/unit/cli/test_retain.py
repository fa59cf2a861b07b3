"""`holons retain`: what is said counts, and is shown."""

from __future__ import annotations

import polars as pl
import pytest
from typer.testing import CliRunner

import holons as h
from holons.cli.app import app
from holons.engines.directory_site import DirectorySite
from holons.errors import BadDuration, BadInput
from holons.node import submit


def retain(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["retain", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_rules_are_set_shown_and_taken_back(tmp_path):
    assert "for ever" in retain(tmp_path)
    told = retain(tmp_path, "--input", "bids=7d", "--output", "Shares=12h", "--ahead")
    assert "input bids: 7d" in told
    assert "output of job Shares: 12h" in told
    rules = DirectorySite(tmp_path).retention()
    assert (rules.inputs(), rules.outputs()) == ({"bids": 604_800_000_000}, {"Shares": 43_200_000_000})
    rules.consume("dashboard", "bids", [17, 4])
    assert "input bids is read by dashboard, from 17, 4 on" in retain(tmp_path)
    assert "Shares" not in retain(tmp_path, "--output", "Shares=forever")


@pytest.mark.parametrize("rule", ["bids", "=7d"])
def test_a_rule_without_a_name_or_a_time_is_refused(tmp_path, rule):
    with pytest.raises(BadInput, match="says not how long"):
        CliRunner().invoke(app, ["retain", str(tmp_path), "--input", rule], catch_exceptions=False)


@pytest.fixture
def site(tmp_path) -> DirectorySite:
    """A site with the streams `orders` and `visits`, and the job `shops`, which reads `orders`."""
    site = DirectorySite(tmp_path)
    site.load({name: [[pl.DataFrame({"ts": [1]})]] for name in ("orders", "visits")})
    flow = h.source("orders").window(h.Tumbling("1s")).agg(n=h.count()).to("out")
    submit(h.job(flow, name="shops"), site.ports("test#1"))
    return site


@pytest.mark.parametrize(
    ("option", "rule", "message"),
    [
        ("--input", "order=7d", r"(?s)no stream 'order'.*is it orders\?.*--ahead"),
        ("--input", "order=forever", "no stream 'order'"),
        ("--input", "shops=7d", r"(?s)no stream 'shops'.*there is orders, visits"),
        ("--output", "Shops=1d", r"(?s)no job 'Shops'.*is it shops\?"),
    ],
)
def test_a_name_that_the_site_has_not_got_is_refused_and_nothing_is_set(site, option, rule, message):
    with pytest.raises(BadInput, match=message):
        CliRunner().invoke(app, ["retain", site.name, "--input", "visits=1d", option, rule], catch_exceptions=False)
    assert (site.retention().inputs(), site.retention().outputs()) == ({}, {})


def test_a_rule_ahead_of_its_stream_can_be_taken_back(site):
    assert "input later: 14d" in retain(site.name, "--input", "later=2w", "--ahead")
    assert "later" not in retain(site.name, "--input", "later=forever")


def test_rows_are_not_kept_for_no_time_at_all(site):
    with pytest.raises(BadDuration, match="must be positive"):
        CliRunner().invoke(app, ["retain", site.name, "--input", "orders=0s"], catch_exceptions=False)
    assert site.retention().inputs() == {}


def test_the_jobs_that_need_an_input_are_shown_until_they_are_cancelled(site):
    assert "input orders is needed by job shops" in retain(site.name)
    assert "visits" not in retain(site.name)
    CliRunner().invoke(app, ["cancel", "shops", "--log", site.name], catch_exceptions=False)
    assert "shops" not in retain(site.name)
