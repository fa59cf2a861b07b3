"""A storm: real processes over one directory, to which everything happens that happens to processes, disks and files.

Everything is drawn from a seed: how the job runs, what happens, and when. What the processes make of it depends on the
machine, so a seed is a kind of storm, not a script. Whatever happens, the outputs must be what `judging` says, every error
must say what to do, and nothing may hang without a word.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from tests.storms.faults import Disk, all_files, flip_a_bit, shared_files, stored_records, truncate
from tests.storms.judging import check_input, differences, expected, noted
from tests.storms.market import JOB, STREAM, job
from tests.storms.processes import Driver, Pids, Producer, spawn

import holons as h
from holons.engines.directory_site import DirectorySite
from holons.errors import LogDamaged
from holons.windows import END

_PAUSE_S = 1.5  # between two faults, on average
_HANG_S = 90.0
_LIMIT_S = 180.0
_RIVAL = -1  # the variant of a driver that submits another job at the same moment as others
_DRIVERS_MAX = 3
_DAMAGED_MAX = 9
_CHANNELS = ("tumbling", "sliding", "dear", "late", "dead")
_REMOVABLE = re.compile(r"hint: nothing in it is needed once no node runs.*: (/\S+)")
_STRANGE = re.compile(r"hint: .*: end all nodes, remove the stream shared/(\S+), and run again")


class Wrong(AssertionError):
    """A storm has found something."""


class Storm:
    """One storm. `run` raises `Wrong` if it finds something, and leaves no process behind."""

    def __init__(self, seed: int, seconds: float, directory: Path, *, rows_max: int = 40) -> None:
        self.seed, self.seconds, self.directory = seed, seconds, directory
        self.rng = rng = random.Random(seed)
        self.partitions = rng.choice([1, 2, 3, 4, 6, 8])
        self.store = rng.choice([None, "memory"])
        self.rows_max = rows_max
        self.settings: dict[str, Any] = {
            "guarantee": rng.choice(["exactly-once", "at-least-once"]),
            "replicas": rng.choice([1, 2]),
            "idle_s": rng.choice([None, 0.5]),
            "checkpoint_s": 0.2,
            "rows_max": rng.choice([50, 200_000]),
            "snapshot_deltas": rng.choice([8, 64]),
        }
        self.disk = Disk(directory / "disk")
        self.site = DirectorySite(self.disk.path / "site", self.store)
        self.pids = Pids()
        self.drivers: list[Driver] = []
        self.producers: list[Producer] = []
        self.variant = self.numbers = 0
        self.faults: Counter[str] = Counter()
        self.remedies: Counter[str] = Counter()
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.moved: tuple[object, float] = (None, time.monotonic())
        self.log = (directory / "log").open("w")

    @property
    def kind(self) -> str:
        return f"{self.partitions} partitions, store {self.store or 'directory'}, {self.settings}"

    # --- the whole of it ----------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Returns a line about what happened."""
        directories = [self.directory / name for name in ("notes", "status", "errors", "results")]
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
        self.disk.mount()
        try:
            self._begin()
            until = time.monotonic() + self.seconds
            while time.monotonic() < until:
                self._wait(self.rng.expovariate(1 / _PAUSE_S))
                self._happen()
            self._calm_down()
            self._end()
            return self._judge()
        finally:
            self._stop_everything()
            self.disk.unmount()
            self.log.close()

    def _begin(self) -> None:
        self.say(f"seed {self.seed}: {self.kind}")
        self.site.create(STREAM, self.partitions)
        count = min(self.partitions, self.rng.choice([1, 2]))
        for number in range(count):
            self._start_producer(list(range(number, self.partitions, count)))
        at = time.time() + 3.0  # all at the same moment
        self._start_driver(at=at)
        self._start_driver(at=at)
        if self.rng.random() < 0.5:
            self._start_driver(at=at, variant=_RIVAL)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self._look()
            if time.monotonic() >= until:
                return
            time.sleep(0.05)

    def _calm_down(self) -> None:
        """No fault happens any more; what was stopped goes on."""
        self.say("calm")
        for _, act in self.later:
            act()
        self.later.clear()
        self._wait(0.1)

    def _end(self) -> None:
        for producer in self.producers:
            producer.end()
        for producer in self.producers:
            producer.process.wait(_LIMIT_S)
        with self.site.producer(STREAM, self.partitions, "ender") as log:
            for partition in range(self.partitions):
                log.mark(partition, END.ts)
        self.producers.clear()
        self.say("all inputs have ended")
        until, self.moved = time.monotonic() + 2 * _LIMIT_S, (None, time.monotonic())
        finished = False
        while not finished:
            finished = any(driver.finished for driver in self.drivers)
            if not finished:
                self._look(ending=True)
            if time.monotonic() > until:
                raise Wrong(f"not finished: {self._statuses()}")
            time.sleep(0.05)

    def _judge(self) -> str:
        """Returns what came out, if it is right. Damage that nobody has met before is met now."""
        self._stop_everything()
        for _ in range(_DAMAGED_MAX):
            error = self._collect()
            if not error:
                try:
                    return self._compare()
                except LogDamaged as damage:
                    error = f"LogDamaged: {damage}"
            self.say(f"collecting: {error}")
            self._remedy(error)
        raise Wrong("there is no end of damage")

    def _collect(self) -> str:
        """Runs the job to its end as a user would; returns the error with which that ended, if any."""
        order = {"variant": self.variant, "site": str(self.site.directory), "store": self.store,
                 "settings": self.settings, "results": str(self.directory / "results")}  # fmt: skip
        printed = self.directory / "errors" / "collecting"
        collecting = spawn("collecting", order, printed)
        if collecting.wait(_LIMIT_S) not in (0, 1):
            raise Wrong(f"no results: {collecting.returncode}: {printed.read_text()[-3_000:]}")
        return printed.read_text()[-3_000:].strip() if collecting.returncode else ""

    def _compare(self) -> str:
        batches = noted(self.directory / "notes", self.seed)
        check_input(self.site.input(STREAM, "judge"), batches)
        log = self.site.ports("judge", h.Settings(idle_s=self.settings["idle_s"])).input(STREAM)
        wanted = expected(log, batches)
        found = {channel: pl.read_parquet(self.directory / "results" / f"{channel}.parquet") for channel in _CHANNELS}
        may_repeat = self.settings["guarantee"] == "at-least-once"
        if wrong := list(differences(found, wanted, may_repeat=may_repeat)):
            raise Wrong("\n".join(wrong))
        figures = {
            "rows": sum(note.batch.rows for note in batches.values() if note.acknowledged),
            "windows": wanted["tumbling"]["start"].n_unique(),
            "outputs": {channel: len(rows) for channel, rows in wanted.items()},
            "repeated": sum(map(len, found.values())) - sum(map(len, wanted.values())),
            "faults": dict(self.faults),
            "remedies": dict(self.remedies),
            "versions": len(self.site.jobs().versions),
        }
        return f"seed {self.seed}: right after {self.seconds:.0f} s of {self.kind}: {figures}"

    # --- looking after it ---------------------------------------------------------------------------------------------

    def _look(self, *, ending: bool = False) -> None:
        """Does what is due, replaces who has died, and raises if something is wrong."""
        now = time.monotonic()
        due = [act for at, act in self.later if at <= now]
        self.later = [(at, act) for at, act in self.later if at > now]
        for act in due:
            act()
        for driver in self.drivers:
            self.pids.note(driver.nodes())
        gone = [driver for driver in self.drivers if driver.process.poll() is not None and not driver.finished]
        self.drivers = [driver for driver in self.drivers if driver not in gone]
        for driver in gone:
            self._driver_ended(driver, ending=ending)
        for producer in list(self.producers):
            if producer.process.poll() is not None:
                self.producers.remove(producer)
                self._producer_ended(producer)
        if not self.drivers:
            at = time.time() + 0.5
            for _ in range(self.rng.choice([1, 2])):
                self._start_driver(at=at)
        self._check_movement()

    def _check_movement(self) -> None:
        state = [(look["version"], look["windows"]) for look in self._statuses()]
        key = (state, sum(self.faults.values()) if self.disk.full or not state else 0, self.variant)
        if key != self.moved[0]:
            self.moved = key, time.monotonic()
        elif time.monotonic() - self.moved[1] > _HANG_S:
            raise Wrong(f"nothing has moved in {_HANG_S:.0f} s: {self._statuses()}")

    def _driver_ended(self, driver: Driver, *, ending: bool) -> None:
        code, error = driver.process.returncode, driver.error()
        self.say(f"driver {driver.number} of variant {driver.variant} ended with {code}: {error}")
        if code == 0 and ending:
            driver.finished = True
            self.drivers.append(driver)
        elif driver.killed and code == -signal.SIGKILL:
            pass
        elif code != 1 or not error:
            raise Wrong(f"driver {driver.number} ended with {code}: {error}\n{driver.printed()}")
        elif error.startswith("JobRunning") and self._standing() != driver.variant:
            self.remedies["another one was running"] += 1
        elif error.startswith("JobFailed") and ": Upgraded: " in error:
            self.remedies["upgraded"] += 1
        else:
            self._remedy(error)
        self.variant = self._standing()

    def _standing(self) -> int:
        """Returns the variant that runs, or that ran last."""
        try:
            running = self.site.jobs().running(JOB)
        except LogDamaged as damage:  # what was decided about jobs is damaged
            self._remedy(f"{type(damage).__name__}: {damage}")
            running = self.site.jobs().running(JOB)
        variants = {job(variant).digest: variant for variant in range(_RIVAL, self.numbers + 1)}
        return self.variant if running is None else variants[running.digest]

    def _remedy(self, error: str) -> None:
        """Does what an error says; it must be one that comes of what was done here."""
        if removable := _REMOVABLE.search(error):
            self._stop_nodes()
            shutil.rmtree(removable[1], ignore_errors=True)
            self.remedies["removed a stream"] += 1
        elif strange := _STRANGE.search(error):
            self._stop_nodes()
            shutil.rmtree(self.site.directory / "shared" / f"stream.{strange[1]}", ignore_errors=True)
            self.remedies["removed strange messages"] += 1
        elif "submit the job once more" in error or "resubmit the job" in error:
            self.remedies["submitted once more"] += 1
        elif "hint: " in error and "restore" in error and (self.disk.copies or self.disk.was_restored):
            self._stop_nodes()
            self.disk.restore()
            self.remedies["restored from a copy"] += 1
        elif "No space left" in error and self.disk.was_full:
            self.remedies["run again after the disk was full"] += 1
        else:
            raise Wrong(f"an error that nothing here explains: {error}")

    def _producer_ended(self, producer: Producer) -> None:
        code = producer.process.returncode
        self.say(f"producer {producer.number} ended with {code}")
        if code == 1 and "LogDamaged" in producer.printed():
            self._remedy(producer.printed())
        elif code not in (0, 3, -signal.SIGKILL):
            raise Wrong(f"producer {producer.number} ended with {code}:\n{producer.printed()}")
        if producer.wanted:
            self._start_producer(producer.own)

    def _statuses(self) -> list[dict[str, Any]]:
        return [status for driver in self.drivers if (status := driver.status())]

    # --- processes ----------------------------------------------------------------------------------------------------

    def _start_producer(self, own: list[int]) -> None:
        self.numbers += 1
        order = {
            "seed": self.seed, "producer": self.numbers, "own": own, "partitions": self.partitions,
            "rows_max": self.rows_max, "site": str(self.site.directory),
            "notes": str(self.directory / "notes" / f"producer-{self.numbers}"),
        }  # fmt: skip
        self.producers.append(Producer(self.numbers, own, order, self.directory))

    def _start_driver(self, *, at: float = 0.0, variant: int | None = None, upgrade: bool = False) -> Driver:
        self.numbers += 1
        order = {
            "variant": self.variant if variant is None else variant, "nodes": 2, "upgrade": upgrade, "begin_at": at,
            "settings": self.settings, "site": str(self.site.directory), "store": self.store,
        }  # fmt: skip
        driver = Driver(self.numbers, order, self.directory)
        self.drivers.append(driver)
        self.say(f"driver {driver.number} of variant {driver.variant} starts")
        return driver

    def _kill_driver(self, driver: Driver) -> None:
        driver.killed = True
        self.pids.note(driver.nodes())
        driver.process.kill()
        self.pids.go_on(driver.nodes().values())  # a node that is stopped would not notice

    def _stop_nodes(self) -> None:
        """Ends all drivers and all nodes, and waits for that."""
        for driver in self.drivers:
            self._kill_driver(driver)
        for driver in self.drivers:
            driver.process.wait(_LIMIT_S)
        self.drivers.clear()
        self.pids.wait_until_gone(90.0)

    def _stop_everything(self) -> None:
        self.disk.free()
        for producer in self.producers:
            producer.process.kill()
            producer.process.wait(30.0)
        self.producers.clear()
        self._stop_nodes()

    # --- what happens -------------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        happening = self.rng.choices(list(_HAPPENINGS), list(_HAPPENINGS.values()))[0]
        what = happening(self)
        if what:
            self.faults[happening.__name__] += 1
            self.say(f"{happening.__name__}: {what}")

    def kill_a_node(self) -> object:
        return self._signal_a_node(signal.SIGKILL)

    def stop_a_node(self) -> object:
        pid = self._signal_a_node(signal.SIGSTOP)
        self._in(self.rng.choice([0.3, 2.0, 6.0]), lambda: self.pids.go_on([pid]))
        return pid

    def _signal_a_node(self, number: int) -> int | None:
        pids = sorted(pid for driver in self.drivers for pid in driver.nodes().values())
        return self.pids.signal(self.rng.choice(pids), number) if pids else None

    def add_a_node(self) -> object:
        return self.drivers and self.rng.choice(self.drivers).tell("add")

    def retire_a_node(self) -> object:
        return self.drivers and self.rng.choice(self.drivers).tell(f"retire {self.rng.randrange(9)}")

    def kill_a_driver(self) -> object:
        if not self.drivers:
            return None
        driver = self.rng.choice(self.drivers)
        self._kill_driver(driver)
        return driver.number

    def kill_all_drivers(self) -> object:
        for driver in self.drivers:
            self._kill_driver(driver)
        return len(self.drivers)

    def add_a_driver(self) -> object:
        return self._start_driver().number if len(self.drivers) < _DRIVERS_MAX - 1 else None

    def upgrade(self) -> object:
        if self.faults["upgrade"] > self.seconds / 60 or len(self.drivers) >= _DRIVERS_MAX:
            return None
        driver = self._start_driver(variant=self.numbers, upgrade=True)
        if self.rng.random() < 0.6:
            self._in(self.rng.uniform(0.0, 4.0), lambda: driver in self.drivers and self._kill_driver(driver))
        return driver.variant

    def kill_a_producer(self) -> object:
        if not self.producers:
            return None
        producer = self.rng.choice(self.producers)
        producer.process.kill()
        return producer.number

    def replace_a_stopped_producer(self) -> object:
        wanted = [producer for producer in self.producers if producer.wanted]
        if not wanted:
            return None
        producer = self.rng.choice(wanted)
        producer.wanted = False
        producer.process.send_signal(signal.SIGSTOP)
        self._start_producer(producer.own)
        self._in(self.rng.uniform(0.5, 5.0), lambda: producer.process.send_signal(signal.SIGCONT))
        return producer.number

    def fill_the_disk(self) -> object:
        if self.disk.full or not self.disk.fill():
            return None
        self._in(self.rng.choice([0.5, 3.0, 8.0]), self.disk.free)
        return True

    def flip_a_bit_of_a_shared_stream(self) -> object:
        return flip_a_bit(self.rng, self.disk, shared_files(self.site))

    def truncate_a_shared_stream(self) -> object:
        return truncate(self.rng, self.disk, shared_files(self.site))

    def damage_a_record(self) -> object:
        return self.rng.choice([flip_a_bit, truncate])(self.rng, self.disk, stored_records(self.site))

    def add_a_strange_heartbeat(self) -> object:
        with self.site.shared("heartbeats", f"strange-{self.faults.total()}") as heartbeats:
            heartbeats.append(self.rng.choice([b"?", b"", bytes(self.rng.randrange(256) for _ in range(40))]))
        return True

    def damage_while_nobody_runs(self) -> object:
        self._stop_nodes()
        return self.rng.choice([flip_a_bit, truncate])(self.rng, self.disk, all_files(self.site))

    def _in(self, seconds: float, act: Callable[[], object]) -> None:
        self.later.append((time.monotonic() + seconds, lambda: act() and None))

    def say(self, text: str) -> None:
        self.log.write(f"{time.monotonic():.2f} {text}\n")
        self.log.flush()


_HAPPENINGS = {
    Storm.kill_a_node: 6,
    Storm.stop_a_node: 5,
    Storm.add_a_node: 1,
    Storm.retire_a_node: 2,
    Storm.kill_a_driver: 2,
    Storm.kill_all_drivers: 1,
    Storm.add_a_driver: 2,
    Storm.upgrade: 1,
    Storm.kill_a_producer: 3,
    Storm.replace_a_stopped_producer: 4,
    Storm.fill_the_disk: 1,
    Storm.flip_a_bit_of_a_shared_stream: 0.7,
    Storm.truncate_a_shared_stream: 0.7,
    Storm.damage_a_record: 1,
    Storm.add_a_strange_heartbeat: 0.3,
    Storm.damage_while_nobody_runs: 1,
}
"""What may happen, and how often."""


def main() -> int:
    """Runs storms one after the other; returns how many found something."""
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds from --seed on")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--directory", type=Path, default=Path("/tmp/storms"))
    asked, wrong = parser.parse_args(), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for seed in range(asked.seed, asked.seed + asked.seeds):
        directory = asked.directory / str(seed)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        try:
            print(Storm(seed, asked.minutes * 60, directory).run(), flush=True)
        except AssertionError as error:
            wrong += 1
            print(f"seed {seed}: {error}\n{directory} has all that is left of it", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
