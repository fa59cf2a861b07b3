"""A site is its owner's, whatever the umask of those who write to it, and whoever made its directory."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.owners import open_to_others

from holons import disk
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput

EVERYTHING = """
import sys
import polars as pl, pyarrow as pa
import holons as h
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.examples import bid_share
from holons.node import Settings

at = sys.argv[1]
rows = pl.DataFrame({"ts": [0, 400_000, 1_200_000], "kind": ["bid"] * 3})
site = DirectorySite(f"{at}/made/site", store=f"{at}/elsewhere")
settings = Settings(idle_s=0.5, preview_s=0.1, guarantee="at-least-once")
run = h.run(
    bid_share.job, {"bids": [rows, iter([rows])]}, engine="embedded", log=site.directory, settings=settings
)
assert run.wait(60).results().count("on_window") == 4
site.store("writer").put("record", (1,), b"data")
batches = Batches(site, "copies", 1)
assert batches.commit("a query", 0, [batches.stage(0, [pa.record_batch({"ts": [1]})])])
with site.producer("copies", 1, "another") as log:
    log.append(0, pa.record_batch({"ts": [2]}))
    log.trim(0, 1)
journal = site.journal("copies", create=True)
journal.propose(0, 0, b"entry")
journal.trim(0, 1)
"""
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def with_umask(umask: int) -> None:
    """In a child: sets the umask, and lets permissions count for root too."""
    os.umask(umask)
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            assert libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


@pytest.mark.parametrize("umask", [pytest.param(0o000, marks=pytest.mark.slow), 0o666])
def test_whatever_the_umask_nobody_else_reads_a_site(tmp_path, umask):
    subprocess.run(
        [sys.executable, "-c", EVERYTHING, str(tmp_path)], check=True, preexec_fn=lambda: with_umask(umask), timeout=120
    )
    made = {path.name for path in (tmp_path / "made" / "site").iterdir()}
    assert made == {"input", "appended", "jobs", "shared", "journal", "store", "batches", "held"}
    for part in ("made", "elsewhere"):
        assert open_to_others(tmp_path / part) == []


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_site_that_was_open_to_others_is_closed_by_whoever_writes_to_it(tmp_path):
    site = tmp_path / "site"
    DirectorySite(site).create("in", 1)
    for path in (site, site / "input"):
        path.chmod(0o777)
    assert DirectorySite(site).streams() == {"in": 1}
    assert mode_of(site) == 0o777, "whoever only reads changes nothing"
    DirectorySite(site).ports("driver")
    assert mode_of(site) == mode_of(site / "input") == 0o700


def test_a_directory_in_which_other_things_are_is_left_as_it_is_and_the_parts_of_the_site_are_closed(tmp_path):
    site = tmp_path / "project"
    DirectorySite(site).create("in", 1)
    (site / "notes.txt").touch()
    for path in (site, site / "input"):
        path.chmod(0o755)
    DirectorySite(site).create("other", 1)
    assert (mode_of(site), mode_of(site / "input")) == (0o755, 0o700)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_where_anybody_could_replace_a_part_nothing_is_written(tmp_path, mode):
    site = tmp_path / "all"
    site.mkdir()
    (site / "notes.txt").touch()
    site.chmod(mode)
    if mode & stat.S_ISVTX:  # as /tmp is: there nobody touches what belongs to others
        DirectorySite(site).create("in", 1)
        assert mode_of(site) == mode
        return
    with pytest.raises(BadInput, match="anybody may replace what is in"):
        DirectorySite(site).create("in", 1)
    assert [path.name for path in site.iterdir()] == ["notes.txt"]


def test_an_open_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    site = tmp_path / "site"
    DirectorySite(site).create("in", 1)
    site.chmod(0o750)
    monkeypatch.setattr(os, "geteuid", lambda: site.stat().st_uid + 1)
    monkeypatch.setattr(disk, "restrict", lambda folder: None)  # the system refuses it
    with pytest.raises(BadInput, match="belongs to another user"):
        DirectorySite(site).create("other", 1)


def test_a_folder_of_a_file_is_an_error(tmp_path):
    (tmp_path / "site").touch()
    with pytest.raises(FileExistsError):
        DirectorySite(tmp_path / "site").create("in", 1)
