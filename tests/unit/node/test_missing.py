"""A sync stream that is an older copy than the checkpoints: what it lacks is sealed again, or the job stops by name."""

from __future__ import annotations

import copy

import pytest
from tests.unit.node.test_idle import SECOND, Awaiting, Count, Table

from holons.engines.inputs import partitions_in
from holons.errors import CheckpointLost
from holons.node import Node, Settings
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

SETTINGS = Settings(idle_s=None, failure_timeout_s=0.3, checkpoint_s=0.1, snapshot_deltas=1000)


def nodes(table, name):
    table.nodes = [Node(f"{name}-{number}", table.world.ports(f"{name}-{number}"), SETTINGS) for number in range(2)]
    for node in table.nodes:
        node.add_job(table.job.name, table.job)


def fill(table, seconds):
    for second in seconds:
        for partition in range(2):
            table.row(partition, second)


def stopped_with_an_older_copy(program, *, trimmed=0):
    """A job that was stopped cleanly, and whose shared streams are those of some windows earlier."""
    table = Table(2, program, settings=SETTINGS)
    fill(table, range(10))
    table.turn(count=150)
    hubs = copy.deepcopy(table.world.hubs)
    fill(table, range(10, 30))
    table.turn(count=150)
    for node in table.nodes:
        node.close()
    assert len(table.world.collected(table.job.name)["on_window" if program is None else "process"][0]) >= 20
    table.world.hubs = hubs
    if trimmed:
        table.rows.trim(0, trimmed)
    nodes(table, "later")
    fill(table, range(30, 35))
    for partition in range(2):
        table.rows.mark(partition, END.ts)
    return table


def test_a_job_goes_on_exactly():
    table = stopped_with_an_older_copy(None)
    for _ in range(600):
        table.turn(0.1)
        if all(node.finished for node in table.nodes):
            break
    assert {partition for node in table.nodes for partition in node.jobs[table.job.name]._missing._again} == {0, 1}
    expected = run_oracle(table.job, {"in": partitions_in(table.rows)})
    assert canonical(table.world.collected(table.job.name)) == canonical(expected)


@pytest.mark.parametrize(
    ("program", "trimmed", "why"),
    [(None, 5, "the input log only begins at 5"), (Awaiting(), 0, "windows that it awaits were trimmed")],
)
def test_where_the_beginning_is_gone_the_job_stops_by_name(program, trimmed, why):
    table = stopped_with_an_older_copy(program, trimmed=trimmed)
    with pytest.raises(AssertionError, match="CheckpointLost"):  # that no node has failed
        table.turn(0.1, count=600)
    (error,) = (error for node in table.nodes for error in node.failures.values())
    assert isinstance(error, CheckpointLost)
    assert f"the sync stream has lost what was sealed, and {why}" in str(error)
    assert "restore all of the site from one copy" in str(error)


def test_what_is_only_late_is_waited_for():
    table = Table(1, Count(), nodes=1, settings=SETTINGS)
    table.row(0, 1)
    table.turn(count=200)
    here = table.nodes[0].jobs[table.job.name]
    assert here._missing._since == {}
    assert here.state.progress[0] == [1 * SECOND]
