"""What a tree of processes has cost: also those of it that have ended."""

import os
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


def test_the_time_of_a_child_that_nobody_has_waited_for_is_not_lost():
    before_s = processes.tree_cpu_s()
    assert before_s is not None
    child = subprocess.Popen([sys.executable, "-c", WORK])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    after_s = processes.tree_cpu_s()
    assert child.pid not in {process.pid for process in processes.living()}
    assert child.wait() == 0
    assert after_s is not None
    assert after_s - before_s >= 0.25
