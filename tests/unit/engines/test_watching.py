from __future__ import annotations

from holons.engines.memory_site import TurnClock
from holons.engines.watching import Watcher
from holons.node import Heartbeat, Running
from holons.streams import MemoryHub
from holons.wire import encode


def running(partition: int, offset: int) -> Running:
    return Running("job", partition, 0, 0, offset, 0, False, False, 0, (0,))


def test_rows_a_second_are_told_for_each_node_from_when_it_took_a_partition_over():
    hub, clock = MemoryHub(), TurnClock()
    watcher = Watcher(hub.open("watcher"), clock)

    def heartbeat(node: str, sequence: int, *told: Running) -> None:
        hub.open(node).append(encode(Heartbeat(node, sequence, told)))

    heartbeat("a", 1, running(0, 100), running(1, 50))
    heartbeat("b", 1, running(2, 0))
    assert [node.rows_per_s for node in watcher.look("job").nodes] == [0.0, 0.0]
    clock.sleep_s(2.0)
    heartbeat("a", 2, running(0, 300))
    heartbeat("b", 2, running(2, 10), running(1, 60))
    status = watcher.look("job")
    assert {node.name: node.rows_per_s for node in status.nodes} == {"a": 100.0, "b": 5.0}
    assert status.rows_per_s == (370 - 150) / 2.0
