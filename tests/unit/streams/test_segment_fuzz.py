"""Right checksums and wrong insides: what others wrote is validated, and never ends the process that reads it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CASES = int(os.environ.get("HOLONS_FUZZ_CASES", "20_000"))


@pytest.mark.parametrize(
    ("first", "cases"),
    [(0, 2_000), *(pytest.param(at, 20_000, marks=pytest.mark.slow) for at in range(2_000, CASES, 20_000))],
)
def test_bytes_that_are_not_rows_are_refused_and_never_a_signal(first, cases):
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.unit.streams.fuzz_segments", str(first), str(cases)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RUST_BACKTRACE": "0", "MALLOC_PERTURB_": "165"},
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert cases / 2 < int(ended.stdout) < cases * 0.9, "some of it is refused, and not all"
