"""A job's digest: the same in every process, another one for any change that matters."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = '''
import holons as h
import numpy as np

LIMIT = 10

def doubled(column):
    return column * 2

class Counting(h.Program):
    """Counts."""
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def __init__(self, names=("a", "b")):
        self.names = set(names)

    def process(self, events):
        large = events.where(events["price"] > LIMIT)
        self.total.insert(doubled(large["price"]), large.ts)

    def on_window(self, window):
        yield {"total": self.total[window], "names": len([n for n in self.names])}

job = h.job(Counting(), "bids")
'''


def digest(program: str) -> str:
    script = textwrap.dedent(program) + "\nprint(job.digest)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def known() -> str:
    return digest(PROGRAM)


def test_it_is_the_same_in_every_process(known):
    assert digest(PROGRAM) == known


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 10", "LIMIT = 11"),
        ("column * 2", "column * 3"),
        ('"1s"', '"2s"'),
        ("GCounter()", "MaxRegister()"),
        ("> LIMIT", ">= LIMIT"),
        ('("a", "b")', '("a", "c")'),
        ('"bids")', '"bids", disorder="1s")'),
        ('"bids")', '"bids", time="date_time")'),
    ],
)
def test_any_change_gives_another(known, old, new):
    assert old in PROGRAM
    assert digest(PROGRAM.replace(old, new)) != known


def test_where_it_is_written_does_not_matter(known):
    assert digest("\n\n# a remark\n" + PROGRAM) == known
