"""Nodes that end alike again and again end their run, with their error."""

from __future__ import annotations

import pytest

from holons.engines.endings import Ending, Endings, ending_text
from holons.engines.spark.nodes import ending_of
from holons.errors import LogDamaged, NodesFailed

DAMAGED = Ending(ending_text(LogDamaged("segment 12 is damaged", hint="restore it", stream="control")), raised=True)
KILLED = Ending("it was killed by SIGKILL", raised=False)


def ended(count: int, ending: Ending, *, nodes: int = 2, apart_s: float = 1.0, heard: bool = True) -> Endings:
    """Each of so many nodes has ended in the same way."""
    endings = Endings()
    for number in range(count):
        endings.note(f"node-{number}", [], number * apart_s, heard=heard)
        endings.note(f"node-{number}", [ending], number * apart_s, heard=heard)
        endings.note(f"node-{number}", [ending], number * apart_s, heard=heard)
        endings.check(nodes, number * apart_s)
    return endings


def test_some_are_replaced_then_their_error_is_raised_with_its_hint():
    ended(4, DAMAGED)
    with pytest.raises(NodesFailed, match=r"5 of them: LogDamaged: segment 12 .*control\)\n  hint: restore it"):
        ended(5, DAMAGED)


def test_the_more_nodes_there_are_the_more_may_end_at_first():
    ended(10, DAMAGED, nodes=8)


def test_endings_that_differ_in_numbers_are_alike():
    endings = Endings()
    for number in range(4):
        endings.note(f"node-{number}", [Ending(f"LogDamaged: byte {number} of a1b2c3d{number}", True)], 0.0, heard=True)
    with pytest.raises(NodesFailed, match="byte 3"):
        endings.check(1, 0.0)


def test_endings_of_several_kinds_are_counted_apart():
    endings = Endings()
    for number, kind in enumerate(["ValueError", "KeyError"] * 3):
        endings.note(f"node-{number}", [Ending(f"{kind}: x", True)], 0.0, heard=True)
    endings.check(1, 0.0)


def test_the_attempts_of_one_node_count_each():
    endings = Endings()
    endings.note("node-1", [DAMAGED] * 4, 0.0, heard=False)
    with pytest.raises(NodesFailed):
        endings.check(1, 0.0)


def test_a_node_may_be_killed_as_often_as_somebody_likes_unless_it_never_came_up():
    ended(50, KILLED)
    with pytest.raises(NodesFailed, match="SIGKILL"):
        ended(5, KILLED, heard=False)


def test_what_happened_long_ago_is_forgotten():
    ended(50, DAMAGED, apart_s=300.0)


SPARK_SAYS = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 7, in main
    process()
    ^^^^^^^^^
holons.errors.{}: the log is damaged
  hint: restore it

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:597)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readFully(DataInputStream.java:210)
"""


def test_what_spark_says_of_a_task_holds_the_error_of_its_node():
    assert ending_of(SPARK_SAYS.format("LogDamaged")) == Ending(
        "LogDamaged: the log is damaged\n  hint: restore it", raised=True
    )
    assert not ending_of(SPARK_SAYS.format("NodesSilent")).raised, "its daemon was killed, by whomever"
    crashed = (
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache\nCaused by: x"
    )
    assert ending_of(crashed) == Ending(
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", raised=False
    )
