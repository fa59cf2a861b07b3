"""What a tree of processes costs: also those of it that end, and whatever becomes of their times."""

import os
import subprocess
import sys

from holons_bench import processes

WORK = "import time\nwhile time.process_time() < 0.3: pass\n"
IGNORING = f"""
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if child == 0:
    {"    ".join(WORK.splitlines(keepends=True))}
    print("worked", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
try:
    os.waitpid(child, 0)
except ChildProcessError:
    print("ended", flush=True)
signal.pause()
"""
"""A parent that ignores its children, as Spark's daemon does; both end their part when their input is closed."""


def test_the_time_of_a_child_that_has_ended_is_not_lost():
    before = processes.tree()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert processes.spent_s(before, processes.tree()) >= 0.25


def test_the_time_of_a_child_that_nobody_has_waited_for_is_not_lost():
    before = processes.tree()
    child = subprocess.Popen([sys.executable, "-c", WORK])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    after = processes.tree()
    assert child.pid not in {process.pid for process in processes.living()}
    assert child.wait() == 0
    assert processes.spent_s(before, after) >= 0.25


def test_a_child_that_is_ignored_takes_nothing_along_when_it_ends():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", IGNORING], stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "worked\n"
        before = processes.tree(parent.pid)
        assert sum(process.own_s for process in before.values()) >= 0.25
        parent.stdin.close()
        assert parent.stdout.readline() == "ended\n"
        after = processes.tree(parent.pid)
        parent.kill()
    assert len(before) == 2
    assert len(after) == 1
    assert sum(process.own_s + process.children_s for process in after.values()) < 0.25, "its times are nowhere"
    assert 0.0 <= processes.spent_s(before, after) < 0.25


def one(pid: int, own_s: float, children_s: float = 0.0, parent: int = 1) -> processes.ProcessTimes:
    return processes.ProcessTimes(pid, ended=False, parent=parent, group=1, own_s=own_s, children_s=children_s)


def test_what_was_used_before_is_not_counted_again_when_it_is_inherited():
    before = {1: one(1, 10.0, 2.0, parent=0), 2: one(2, 5.0, 1.0), 3: one(3, 7.0, parent=2)}
    after = {1: one(1, 11.0, 2.0 + 6.5 + 7.25, parent=0), 4: one(4, 0.5)}
    assert processes.spent_s(before, after) == 1.0 + 0.75 + 0.5


def test_a_number_that_is_used_again_makes_nothing_negative():
    assert processes.spent_s({1: one(1, 1.0), 2: one(2, 9.0)}, {1: one(1, 1.5), 2: one(2, 0.25)}) == 0.5
