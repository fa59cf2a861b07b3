"""What a tree of processes has cost: also those of it that have ended."""

import subprocess
import sys

from holons.bench import processes

WORK = "import time\nwhile time.process_time() < 0.3: pass"


def test_the_time_of_a_child_that_has_ended_is_not_lost():
    before_s = processes.tree_cpu_s()
    assert before_s is not None
    subprocess.run([sys.executable, "-c", WORK], check=True)
    after_s = processes.tree_cpu_s()
    assert after_s is not None
    assert after_s - before_s >= 0.25
