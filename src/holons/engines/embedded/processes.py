"""Nodes in processes of their own, on this machine. No JVM."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import SpawnProcess

from holons.engines.driver import Birth, Driver, live

_spawn = multiprocessing.get_context("spawn")


class ProcessNodes(Driver):
    """A process for each node. They end themselves when this one is gone."""

    def launch(self, birth: Birth) -> NodeProcess:
        process = _spawn.Process(target=_main, args=(birth, os.getpid()), daemon=True, name=birth.name)
        process.start()
        return NodeProcess(process)


class NodeProcess:
    """A child of this process."""

    def __init__(self, process: SpawnProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """For those who want to send it a signal."""
        assert self._process.pid is not None
        return self._process.pid

    def alive(self) -> bool:
        return self._process.is_alive()

    def join(self, timeout_s: float) -> None:
        self._process.join(timeout_s)

    def kill(self) -> None:
        self._process.kill()


def _main(birth: Birth, parent: int) -> None:
    live(birth, lambda: os.getppid() == parent)
