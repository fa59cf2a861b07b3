"""Programs that nobody would write by hand: each gives the oracle's bytes, however it is run.

`random_programs.job_spec(seed)` shows the program of a seed that failed, `workload(spec, seed)` its rows.
"""

from __future__ import annotations

import random

import cloudpickle
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.conformance.trimming import TrimmingRig

import holons as h
from holons.engines.simulator.random_jobs import JobSpec, ProgramSpec, job_spec, with_counts, workload
from holons.engines.simulator.random_programs import job_of
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import FixedSpec

SEEDS = range(400)


@pytest.mark.filterwarnings("ignore::holons.engines.LateRows")
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=settings.default.max_examples // 2, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)  # a smaller seed is no simpler
def test_random_programs_equal_the_oracle(seed):
    equals_the_oracle(job_spec(seed), seed)


@pytest.mark.filterwarnings("ignore::holons.engines.LateRows")
@given(seed=st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 4, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_random_programs_that_count_equal_the_oracle(seed):
    equals_the_oracle(with_counts(job_spec(seed), seed), seed)


def equals_the_oracle(spec: JobSpec, seed: int) -> None:
    job, streams, rng = job_of(spec), workload(spec, seed), random.Random(f"run {seed}")
    expected = canonical(run_oracle(job, streams))
    rig = TrimmingRig(job, streams, seed, replicas=rng.randint(1, 3))
    broken = rig.run(rows_max=rng.choice([1, 3, 100]), mischief=rng.choice([0.1, 0.4]))
    assert canonical(broken) == expected, "cut, broken and shuffled"
    travelled = cloudpickle.loads(cloudpickle.dumps(job))
    assert (
        h.run(travelled, streams, nodes=rng.randint(1, 4), engine="embedded").wait().results().canonical() == expected
    ), "on nodes"
    if spec.program.advanced is None:
        batches = run_oracle(job, streams, rows_per_call=rng.choice([2, 7, 100]))
        assert canonical(batches) == expected, "the oracle itself, in batches"


# --- the comparison means something -----------------------------------------------------------------------------------


def programs(seeds) -> list[ProgramSpec]:
    found = [job_spec(seed).program for seed in seeds]
    return found + [spec.nested for spec in found if spec.nested is not None]


def test_a_seed_is_a_program():
    assert [job_spec(seed) for seed in range(50)] == [job_spec(seed) for seed in range(50)]


FEATURES = {
    "nested programs": lambda spec: spec.nested is not None,
    "programs that emit once": lambda spec: spec.emit == "once",
    "batches": lambda spec: spec.entry == "process",
    "rows one by one": lambda spec: spec.entry == "each",
    "awaits in batches": lambda spec: spec.awaits is not None and spec.entry == "process",
    "awaits one by one": lambda spec: spec.awaits is not None and spec.entry == "each",
    "awaits of a later stage": lambda spec: spec.awaits is not None and spec.handle(spec.awaits.handle).stage > 0,
    "clocks moved by hand": lambda spec: spec.advanced is not None,
    "several channels": lambda spec: len(spec.outputs) > 1,
    "locals": lambda spec: spec.remembers and any(callback.counts_itself for callback in spec.callbacks),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_there_are(feature):
    assert sum(map(FEATURES[feature], programs(SEEDS))) >= 5


def test_there_is_a_handle_of_every_kind():
    handles = [handle for spec in programs(SEEDS) for handle in spec.handles]
    aggregates = {type(handle.aggregate).__name__ for handle in handles}
    assert aggregates >= {
        "Average", "GCounter", "GSet", "Histogram", "HyperLogLog", "LWWRegister", "MVRegister", "MaxRegister", "MergeMap",
        "MinRegister", "ORSet", "PNCounter", "ParetoFront", "Product", "Quantiles", "Sum", "TopK", "TwoPhaseSet",
    }  # fmt: skip
    assert any(handle.aggregate.describe().startswith("MergeMap(MergeMap(") for handle in handles)
    assert {type(handle.window) for handle in handles} == {h.Tumbling, h.Sliding, h.Session}
    assert any(isinstance(w := handle.window, FixedSpec) and w.size_us % w.every_us for handle in handles)
    for stage in range(2):
        kinds = {(handle.shared, handle.accumulate) for handle in handles if handle.stage == stage}
        assert len(kinds) == 4, f"shared and local, accumulating and not, in stage {stage}"
    assert max(handle.stage for handle in handles) == 2


def test_there_are_handles_that_count_of_every_kind():
    specs = [with_counts(job_spec(seed), seed).program for seed in SEEDS]
    specs += [spec.nested for spec in specs if spec.nested is not None]
    counting = [handle for spec in specs for handle in spec.handles if handle.window.counted]
    kinds = {(handle.shared, handle.window.slides, handle.window.partial) for handle in counting}
    assert len(kinds) == 8
    assert any(handle.name.startswith("inner_") for handle in counting)
    emitted = set()
    for seed in range(4):
        spec = with_counts(job_spec(seed), seed)
        emitted |= set(TrimmingRig(job_of(spec), workload(spec, seed), seed).run(rows_max=5))
    assert emitted >= {"on_c0", "on_c1"}


def test_windows_are_emitted_rows_set_aside_and_seals_dropped():
    channels, dropped = set(), 0
    for seed in range(25):
        spec = job_spec(seed)
        rig = TrimmingRig(job_of(spec), workload(spec, seed), seed)
        channels |= set(rig.run(rows_max=5, mischief=0.4))
        dropped += rig.dropped
    assert channels >= {"late", "dead", "process", "positive", "twice", "on_h0"}
    assert dropped > 50
