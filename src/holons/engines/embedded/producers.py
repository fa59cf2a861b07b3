"""Producers in processes of their own, on this machine, without a JVM."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.process import BaseProcess

from holons.engines.driver import ProcessHandle
from holons.engines.producers import Producers, ProducerTask, produce

_spawn = multiprocessing.get_context("spawn")


class ProcessProducers(Producers):
    """A process for each task. The processes end when this one has ended."""

    def launch(self, tasks: Sequence[ProducerTask]) -> list[ProcessHandle]:
        processes = [
            _spawn.Process(target=_main, args=(task, os.getpid()), daemon=True, name=task.writer) for task in tasks
        ]
        for process in processes:
            process.start()
        return [_Spawned(process) for process in processes]


class _Spawned:
    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def alive(self) -> bool:
        return self._process.is_alive()

    def join(self, timeout_s: float) -> None:
        self._process.join(timeout_s)

    def kill(self) -> None:
        self._process.kill()


def _main(task: ProducerTask, parent: int) -> None:
    produce(task, lambda: os.getppid() == parent)
