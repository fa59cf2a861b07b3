"""A page holds what it was given, escaped, and asks nobody for anything."""

import re
import sys

import numpy as np
import pytest

from holons.errors import MissingExtra
from holons_bench import plots
from holons_bench.chronicle import Chronicle, Happened, Heard
from holons_bench.report import Report, plotly

NASTY = '<script>alert("x")</script> & <img src=https://example.com/x.png>'


def run() -> Chronicle:
    due = np.arange(1.0, 11.0)
    heard = [
        Heard(second / 10, node, 1, (number,)) for second in range(100) for number, node in enumerate(["a#1", "b<i>#1"])
    ]
    happened = [Happened(5.0, "killed", "b<i>#1", 2), Happened(7.0, "started", "c#1")]
    return Chronicle(due, due + 0.02, [], heard, happened, [(float(second), 1_000 * second) for second in range(11)])


def without_plotly(page: str) -> str:
    """What is ours: plotly's own code mentions addresses that it never asks for figures like ours."""
    return page.replace(plotly("offline").get_plotlyjs(), "")


@pytest.fixture(scope="module")
def page() -> str:
    made = Report(f"Title {NASTY}")
    made.heading(NASTY)
    made.text("plain words", NASTY)
    made.verdict(NASTY, good=False)
    made.facts([(NASTY, NASTY)])
    made.table(["name", NASTY], [[NASTY, 1234567], ["b", 2]], caption=NASTY)
    for figure in (plots.latency(run()), plots.throughput(run()), plots.owners(run())):
        made.figure(figure)
    made.figure(plots.latency_grid({"calm": {"holons": run()}, "killed": {"holons": run(), "spark": run()}}))
    return made.html()


def test_everything_is_escaped(page):
    ours = without_plotly(page)
    assert "<script>alert" not in ours
    assert "<img" not in ours
    assert ours.count("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp;") == 10
    assert "plain words" in ours
    assert "1,234,567" in ours


def test_the_page_needs_nothing_else(page):
    assert page.count(plotly("offline").get_plotlyjs()) == 1
    ours = without_plotly(page)
    assert not re.findall(r"<(?:script|img|iframe|link|source|object|embed)[^>]*(?:src|href|data)\s*=", ours)
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", ours)
    assert ours.count("Plotly.newPlot") == 4


def test_a_page_without_figures_is_small():
    made = Report("Words")
    made.text("only")
    assert len(made.html()) < 5_000


def test_a_page_is_written(tmp_path):
    made = Report("Größe")
    made.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == made.html()


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtra, match="plotly") as missing:
        plotly("offline")
    assert "holons[report]" in missing.value.hint


def test_bars_show_who_ran_what():
    bars = [trace for trace in plots.owners(run()).data if trace.type == "bar"]
    assert [bar.name for bar in bars] == ["a", "b<i>"]
    assert bars[1].base[0] + bars[1].x[0] == 5.0  # death ended it


def test_a_grid_has_a_place_for_each_way_and_scenario():
    grid = plots.latency_grid({"calm": {"holons": run()}, "killed": {"holons": run(), "spark": run()}})
    assert [text.text for text in grid.layout.annotations] == [
        "calm: holons",
        "calm: spark",
        "killed: holons",
        "killed: spark",
    ]
    assert len(grid.data) == 3
