"""A job's digest: the same in every process, another one for any change that matters."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = '''
import decimal
import re

import holons as h
import numpy as np
import polars as pl

LIMIT = 10

def doubled(column):
    return column * 2

class Counting(h.Program):
    """Counts."""
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def __init__(self, names=("a", "b")):
        self.names = set(names)
        self.table = pl.DataFrame({"a": [1, 2]})
        self.wanted = pl.col("price") > 5
        self.pattern = re.compile("abc")
        self.weights = np.arange(3, dtype=np.float32)
        self.zone = decimal.Decimal("1.5")

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
        ("[1, 2]})", "[1, 3]})"),
        ('col("price") > 5', 'col("price") > 6'),
        ('compile("abc")', 'compile("abd")'),
        ("arange(3,", "arange(4,"),
        ('Decimal("1.5")', 'Decimal("1.6")'),
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


def test_what_was_done_with_the_job_before_does_not_matter(known):
    used = (
        PROGRAM
        + """
import cloudpickle, polars as pl
cloudpickle.loads(cloudpickle.dumps(job))
h.run(h.job(Counting(), "bids"), {"bids": [pl.DataFrame({"ts": [1, 2], "price": [11, 12]})]}, engine="embedded").wait()
repr(job), job.layout.stages, Counting.__annotations__ if hasattr(Counting, "__annotations__") else None
"""
    )
    assert digest(used) == known


def test_a_global_of_the_same_name_as_an_attribute_does_not_matter(known):
    assert digest(PROGRAM.replace("LIMIT = 10", "LIMIT = 10\nnames = open('/dev/null')\ntotal = price = 7")) == known
