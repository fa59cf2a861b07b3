"""A process that has nothing to do holds nothing that it does not need."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from holons.engines.memory import give_back

MEGABYTES = 64


def held_megabytes() -> int:
    """What this process holds of its own, files not counted."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators give back what they want")
def test_what_refers_to_itself_is_given_back_too():
    give_back()
    before = held_megabytes()
    circle: list[object] = [np.ones(1 << 13) for _ in range(MEGABYTES * 16)]  # each too small to be mapped by itself
    circle.append(circle)
    assert held_megabytes() - before >= MEGABYTES - 4
    del circle
    give_back()
    assert held_megabytes() - before < MEGABYTES / 4
