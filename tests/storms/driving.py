"""A driver of a storm: submits the job, starts nodes, looks after them, and follows orders that it reads line by line.

It writes its status to a file, and the error that ends it to another one.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.storms.market import job

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.engines.embedded.processes import ProcessNodes
from holons.engines.handle import DriverNodes
from holons.errors import DescribedError

_STATUS_S = 0.2


def main(order: dict[str, Any]) -> int:
    status, error_file = Path(order["status"]), Path(order["error"])
    try:
        _drive(order, status)
    except DescribedError as error:
        error_file.write_text(f"{type(error).__name__}: {error}")
        return 1
    return 0


def _drive(order: dict[str, Any], status: Path) -> None:
    site = DirectorySite(order["site"], order["store"])
    _wait_until(order["begin_at"])
    with ProcessNodes(site, h.Settings(**order["settings"])) as driver:
        nodes = DriverNodes(driver, job(order["variant"]), order["nodes"], upgrade=order["upgrade"])
        orders: list[list[str]] = []
        threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
        finished, noted_s = False, 0.0
        while not finished:
            finished = nodes.tend()
            while orders:
                _obey(driver, orders.pop(0))
            if finished or time.monotonic() - noted_s > _STATUS_S:
                noted_s = time.monotonic()
                _note(status, nodes, driver, finished)
            time.sleep(0.01)


def _read_orders(orders: list[list[str]]) -> None:
    for line in sys.stdin:
        orders.append(line.split())
    os.kill(os.getpid(), signal.SIGKILL)  # the storm is gone


def _obey(driver: ProcessNodes, order: list[str]) -> None:
    if order[0] == "add":
        driver.start()
    elif order[0] == "retire" and driver.running:
        driver.retire(sorted(driver.running)[int(order[1]) % len(driver.running)])


def _note(path: Path, nodes: DriverNodes, driver: ProcessNodes, finished: bool) -> None:
    look = dataclasses.replace(nodes.look(), state="finished" if finished else "running")
    pids = {name: process.pid for name, process in driver.running.items()}
    record = {
        "state": look.state, "version": nodes.version, "rows_read": look.rows_read, "windows": look.windows,
        "waiting_for": str(look.waiting_for), "deaths": look.deaths, "pids": pids, "text": repr(look),
    }  # fmt: skip
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(record))
    part.rename(path)


def _wait_until(at_s: float) -> None:
    while time.time() < at_s:
        time.sleep(0.001)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
