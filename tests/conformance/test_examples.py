"""Every example program gives the oracle's bytes, however its logs are cut and its runs are broken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rig import Rig
from tests.workloads import EXAMPLES, load, streams

import holons as h
from holons.program import canonical
from holons.semantics import run as run_oracle

seeds = st.integers(0, 2**32)
TRIES = settings.default.max_examples


@pytest.mark.parametrize("name", EXAMPLES)
@given(seed=seeds, rows_max=st.sampled_from([1, 2, 7, 100]))
@settings(max_examples=TRIES // 4)
def test_cuts_snapshots_and_shuffled_deltas_do_not_show(name, seed, rows_max):
    job = load(name)
    given_streams = streams(job, *EXAMPLES[name], seed=seed)
    expected = run_oracle(job, given_streams)
    got = Rig(job, given_streams, seed).run(rows_max)
    assert canonical(got) == canonical(expected)


@pytest.mark.parametrize("name", EXAMPLES)
@given(seed=seeds, rows_per_call=st.sampled_from([2, 5, 1000]))
@settings(max_examples=TRIES // 6)
def test_the_oracle_does_not_depend_on_its_own_batches(name, seed, rows_per_call):
    job = load(name)
    given_streams = streams(job, *EXAMPLES[name], seed=seed)
    one_by_one = run_oracle(job, given_streams)
    assert canonical(run_oracle(job, given_streams, rows_per_call=rows_per_call)) == canonical(one_by_one)


@pytest.mark.parametrize("name", EXAMPLES)
@given(seed=seeds, nodes=st.integers(1, 4))
@settings(max_examples=TRIES // 6)
def test_embedded_nodes_give_the_oracles_bytes(name, seed, nodes):
    job = load(name)
    given_streams = streams(job, *EXAMPLES[name], seed=seed)
    assert h.run(job, given_streams, nodes=nodes, engine="embedded").wait().results().canonical() == canonical(
        run_oracle(job, given_streams)
    )


def test_the_workloads_exercise_what_they_should():
    """The comparison above means something: all channels have rows, also the late and the dead ones."""
    for name, workload in EXAMPLES.items():
        job = load(name)
        silent = {"process", "each_second"}  # of programs: nothing leaves by these
        missing = {*job.layout.channels, "late", "dead"} - silent
        for seed in range(20):
            missing -= set(run_oracle(job, streams(job, *workload, seed=seed))) if missing else set()
        assert not missing, name
