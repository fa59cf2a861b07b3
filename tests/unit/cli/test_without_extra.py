"""Without the extra `cli`: jobs run, and the command says what to install."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys
for name in ("rich", "typer"):
    sys.modules[name] = None  # as if it were not installed: importing it raises
"""

RUN = """
import holons as h
import polars as pl

class Total(h.Program):
    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.total.insert(1, events.ts)

    def on_window(self, window):
        yield {"total": self.total[window]}

rows = pl.DataFrame({"ts": [1, 2, 3]})
print(h.run(h.job(Total(), "rows"), {"rows": [rows]}, engine="embedded").wait().results().rows())
"""

COMMAND = """
from holons.cli import main
main(["version"])
"""


def run_blocked(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)


def test_a_job_runs():
    ended = run_blocked(RUN)
    assert (ended.returncode, ended.stdout) == (0, "[{'total': 3}]\n"), ended.stderr


def test_the_command_says_what_to_install():
    ended = run_blocked(COMMAND)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error: the command line needs rich and typer, which are not installed\n  hint: pip install 'holons[cli]'\n"
    )
