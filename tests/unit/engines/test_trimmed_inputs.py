"""A job that begins behind what is kept of its inputs says so, once."""

from __future__ import annotations

import warnings

import polars as pl
import pytest
from tests.handles import Count

import holons as h
from holons.cli import main
from holons.engines.directory_site import DirectorySite
from holons.engines.inputs import fill
from holons.errors import BadInput
from holons.node.jobs import Beginning, Jobs, late_beginnings
from holons.node.messages import Submitted
from holons.program import Cut

TOLD = "partition 1 of visits begins at offset 4: rows before are no longer kept, so the first windows may be partial"
VISITS = h.source("visits")
APP = 'import holons as h\njob = h.source("visits").window(h.Tumbling("1s")).agg(n=h.count()).to("counts")\n'


def counts(source: h.Stream) -> h.Job:
    return source.window(h.Tumbling("1s")).agg(n=h.count()).to("counts")


@pytest.fixture
def directory(tmp_path):
    """A site with a stream of two partitions, the second one trimmed."""
    site = DirectorySite(tmp_path / "site")
    with site.loading("visits", 2) as log:
        fill(log, [pl.DataFrame({"ts": list(range(10))})] * 2)
    with site.input("visits", "trimmer") as log:
        log.trim(1, 4)
        assert log.start(1) == 4
    return site.directory


def run(job: h.Job, directory) -> list[int]:
    with h.run(job, log=directory, nodes=1, engine="embedded") as handle:
        return [row["n"] for row in handle.wait().results().rows()]


def test_a_job_that_begins_behind_rows_that_are_gone_warns_once(directory):
    with pytest.warns(h.InputTrimmed, match=TOLD) as told:
        assert run(counts(VISITS), directory) == [16]
    assert "whole=True" in str(told[0].message)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", h.InputTrimmed)
        assert run(counts(VISITS), directory) == [16], "it goes on, and lacks nothing more"


@pytest.mark.parametrize(
    "job",
    [
        counts(h.source("visits", whole=True)),
        counts(VISITS.filter(pl.col("ts") > 1).union(h.source("visits", whole=True))),
        h.job(Count(), h.Input("visits", whole=True)),
    ],
    ids=["source", "source of two", "input"],
)
def test_a_job_that_needs_the_whole_stream_is_refused(job, directory):
    with pytest.raises(BadInput, match="needs the whole of 'visits', and partition 1 only begins at 4"):
        run(job, directory)


def test_whole_is_shown_and_makes_no_other_job_of_one_that_does_not_say_it():
    assert ", whole)" in counts(h.source("visits", whole=True)).explain()
    assert counts(h.source("visits", whole=False)).digest == counts(VISITS).digest
    assert counts(h.source("visits", whole=True)).inputs == (h.Input("visits", columns=[], whole=True),)


def test_holons_run_prints_it(directory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    for expected in (1, 0):
        with pytest.raises(SystemExit) as ended:
            main(["run", "app.py:job", "--log", str(directory), "--engine", "embedded", "--nodes", "1"])
        assert not ended.value.code
        assert capsys.readouterr().err.count(f"warning: {TOLD}") == expected


def test_of_an_upgrade_only_streams_that_are_new_to_it_count():
    jobs = Jobs()
    old = Submitted("Count", 0, "d", "driver", (("visits", 1),), cuts=(Cut(begin=3),))
    jobs.versions[old.id] = old
    new = Submitted(
        "Count", 1, "e", "driver", (("visits", 1), ("taps", 2)), old.id, (Cut(begin=3), Cut(), Cut(begin=7))
    )
    assert late_beginnings(old, jobs) == [Beginning("visits", 0, 3)]
    assert late_beginnings(new, jobs) == [Beginning("taps", 1, 7)]
