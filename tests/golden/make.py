"""Makes `site.tar.xz`, a small site with the formats that are written today. Run it when a format has changed on purpose:

python -m tests.golden.make
"""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.handles import JOB, PARTITIONS, SLOWLY, endless, until

import holons as h
from holons.engines.batches import Batches
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.program import Job
from holons.windows import END

ARCHIVE = Path(__file__).parent / "site.tar.xz"
SETTINGS = replace(SLOWLY, snapshot_deltas=4, preview_s=0.05)
AGAIN: Job = h.job(JOB.program, "visits", name="again")


def run_partly(site: DirectorySite, job: Job, settings: h.Settings) -> None:
    """Runs a job until records of each kind are stored, and stops its nodes."""
    with ProcessNodes(site, settings) as nodes:
        version = nodes.submit(job)
        for _ in range(2):
            nodes.start()
        store = site.store("maker#1")
        kinds = [
            f"{version.id}/{partition}/{kind}" for partition in range(PARTITIONS) for kind in ("process", "window")
        ]
        until(lambda: "on_window" in site.collected(job.name), "no rows", 60)
        until(lambda: all(map(store.positions, [*kinds, f"{version.id}/replica"])), "no records", 60)


def quiet(site: DirectorySite) -> None:
    """Makes a stream with marks: one of its producer's among the rows, one of a node's in the journal, and the end."""
    with site.producer("quiet", 1, "producer#1") as log:
        log.append(0, pa.record_batch({"ts": [1_000_000]}))
        log.mark(0, 2_000_000)
        with closing(site.ports("maker#1").input("quiet")) as journaled:
            journaled.read(0, 0, 9)  # a mark goes behind what was read
            assert journaled.mark(0, 5_000_000) is not None
        log.append(0, pa.record_batch({"ts": [6_000_000]}))
        log.mark(0, END.ts)


def main() -> None:
    """Makes the archive anew."""
    with tempfile.TemporaryDirectory() as directory:
        site = endless(Path(directory) / "site")
        run_partly(site, JOB, SETTINGS)
        run_partly(site, AGAIN, replace(SETTINGS, guarantee="at-least-once"))
        batches = Batches(site, "batched", 1)
        batches.commit("query", 0, [batches.stage(0, [pa.record_batch({"ts": [1, 2], "text": ["a", None]})])])
        quiet(site)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(site.directory, "site")


if __name__ == "__main__":
    main()
