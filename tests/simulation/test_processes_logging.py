"""Node processes are heard by their driver: what they take over, what their programs log, why a job stopped."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import polars as pl
import pytest
from tests.spark.live_input import PARTITIONS, LiveInput, Witness, until

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.node import Settings

SETTINGS = Settings(heartbeat_s=0.05, failure_timeout_s=0.5, checkpoint_s=0.1)


@pytest.fixture
def live(tmp_path):
    return LiveInput(tmp_path)


def test_a_takeover_is_told_and_a_node_that_retires_hands_over(live, caplog):
    caplog.set_level(logging.WARNING, logger="holons.nodes")
    with ProcessNodes(live.site, SETTINGS) as nodes:
        nodes.submit(live.job)
        first = nodes.start()
        until(lambda: live.more() or live.site.collected(live.job.name), "no row came out")
        second = nodes.start()
        until(lambda: live.more() or second in nodes.watcher.pids(), "the second did not come up")
        nodes.kill(first)
        told = f"of {live.site.jobs().history(live.job.name)[0].id} from {first}, which has fallen silent"
        until(lambda: live.more() or nodes.finished() or told in caplog.text, "nobody said so")
        assert {record.name for record in caplog.records} == {"holons.nodes.node-2"}
        third = nodes.retire(second)
        assert list(nodes.running) == [third]
        witness = Witness(live.site)
        until(lambda: live.more() or witness.look() or len(witness.owned_by(third)) == PARTITIONS, "no handover")
        assert witness.newest[second].leaving
        live.end()
        assert nodes.wait(600)
    assert live.found() == live.expected()


class Talkative(h.Program):
    """Logs, warns, and fails in the end."""

    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        logging.getLogger("talkative").warning("a batch has come")
        logging.getLogger("talkative").info("which nobody wants to know")
        warnings.warn("what a batch", stacklevel=1)
        self.n.insert(1, events.ts)

    def on_window(self, window):
        raise ValueError("enough")


def test_what_a_program_logs_and_why_it_stopped_is_told_once(tmp_path, caplog):
    site = DirectorySite(tmp_path)
    site.load({"bids": [pl.DataFrame({"ts": np.arange(100) * 100_000}) for _ in range(2)]})
    with ProcessNodes(site, SETTINGS) as nodes, pytest.raises(h.HolonsError, match="enough"):
        nodes.run_to_end(h.job(Talkative(), "bids"), nodes=2)
    assert "talkative: a batch has come" in caplog.text
    assert "what a batch" in caplog.text
    assert "nobody wants" not in caplog.text
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert 1 <= len(errors) <= 2, "by those who found out, not by all who heard of it"
    assert "ValueError: enough" in errors[0].getMessage()
