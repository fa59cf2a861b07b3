"""However a driver ends, everything of it ends, nothing is left behind, and the next one goes on with the same job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.spark.live_input import LiveInput, Witness, parent, running, until, with_environment

pytestmark = [pytest.mark.spark, pytest.mark.own_spark]
ROOT = Path(__file__).parent.parent.parent
_TOKEN = "HOLONS_TEST_RUN"


class Driver:
    """A driver in a process of its own, with a temporary directory of its own."""

    def __init__(self, live: LiveInput, place: Path) -> None:
        self.live, self.token, self.flag = live, uuid.uuid4().hex, place / "fail"
        self.temporary = place / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.witness = Witness(live.site)
        self.witness.look()
        self._before = set(self.witness.newest)
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "TMPDIR": str(self.temporary), _TOKEN: self.token, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "tests" / "spark" / "driver_script.py", live.site.directory, self.flag],
            env=environment,
            cwd=place,
            start_new_session=True,
            stderr=subprocess.PIPE,
            text=True,
        )

    def at_work(self) -> list[int]:
        """Waits until its nodes have put something out; returns their processes."""

        def news() -> list[int]:
            self.live.more()
            self.witness.look()
            mine = [heartbeat for name, heartbeat in self.witness.newest.items() if name not in self._before]
            assert self.process.poll() is None, self.process.stderr.read()
            ahead = [one.offset for heartbeat in mine for one in heartbeat.running]
            ready = len(mine) == 2 and ahead and min(ahead) > 0 and self.live.site.collected(self.live.job.name)
            return [heartbeat.pid for heartbeat in mine] if ready else []

        until(news, "its nodes did not begin to work")
        return news()

    def all_gone(self) -> None:
        """No process of it is left, nor a file in its temporary directory."""
        until(lambda: not with_environment(_TOKEN, self.token), "processes are left")
        assert [str(path) for path in self.temporary.rglob("*")] == []


@pytest.fixture
def live(tmp_path):
    return LiveInput(tmp_path / "site")


@pytest.fixture
def start(live, tmp_path):
    drivers: list[Driver] = []

    def started() -> Driver:
        drivers.append(Driver(live, tmp_path))
        return drivers[-1]

    yield started
    for driver in drivers:
        driver.process.kill()
        driver.process.communicate()


def goes_on(live: LiveInput, driver: Driver) -> None:
    """Another driver over the same site finishes the same job."""
    live.end()
    errors = driver.process.communicate(timeout=900)[1]
    assert driver.process.returncode == 0, errors
    driver.all_gone()
    assert len(live.site.jobs().versions) == 1, "it is the same job"
    assert live.found() == live.expected()


@pytest.mark.slow
def test_a_driver_is_killed_and_the_next_one_goes_on(live, start):
    driver = start()
    nodes = driver.at_work()
    daemon = parent(nodes[0])
    ours = {driver.process.pid, parent(daemon), daemon, *nodes}
    assert ours <= with_environment(_TOKEN, driver.token)
    assert b"java" in Path(f"/proc/{parent(daemon)}/cmdline").read_bytes()
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.process.wait()
    driver.all_gone()
    goes_on(live, start())


@pytest.mark.slow
def test_however_a_driver_ends_nothing_is_left_and_the_next_one_goes_on(live, start):
    for ending in ("Ctrl-C", "SIGTERM", "exception", "the JVM is killed"):
        driver = start()
        nodes = driver.at_work()
        if ending == "Ctrl-C":
            os.killpg(driver.process.pid, signal.SIGINT)
        elif ending == "SIGTERM":
            os.kill(driver.process.pid, signal.SIGTERM)
        elif ending == "exception":
            driver.flag.touch()
        else:
            os.kill(parent(parent(nodes[0])), signal.SIGKILL)
        errors = driver.process.communicate(timeout=600)[1]
        assert driver.process.returncode != 0
        if ending == "exception":
            assert "the driver's own code has failed" in errors
            driver.flag.unlink()
        if ending == "the JVM is killed":
            assert "NodesSilent" in errors
            assert "Spark has gone" in errors
        driver.all_gone()
        assert not any(running(pid) for pid in nodes)
    goes_on(live, start())
