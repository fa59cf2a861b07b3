"""The same job on every engine gives the oracle's bytes."""

from __future__ import annotations

import pytest
from tests.workloads import EXAMPLES, load, streams

import holons as h
from holons.program import canonical
from holons.semantics import run as run_oracle


@pytest.mark.spark
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("name", EXAMPLES)
def test_nodes_in_spark_tasks_give_the_oracles_bytes(name, nodes):
    job = load(name)
    given = streams(job, *EXAMPLES[name], seed=7)
    assert h.run(job, given, nodes=nodes).wait().results().canonical() == canonical(run_oracle(job, given))


@pytest.mark.spark
def test_a_program_of_this_very_module_travels_to_spark():
    class Here(h.Program):
        n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

        def process(self, events):
            self.n.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.n[window]}

    job = h.job(Here(), "visits")
    given = streams(load("alert_rule"), *EXAMPLES["alert_rule"], seed=1)
    assert h.run(job, given).wait().results().canonical() == canonical(run_oracle(job, given))


def test_an_unknown_engine_is_named():
    with pytest.raises(h.HolonsError, match="'flink'"):
        h.run(load("bid_share"), streams(load("bid_share"), *EXAMPLES["bid_share"], seed=1), engine="flink")
