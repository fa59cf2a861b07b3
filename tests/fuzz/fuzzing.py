"""Feeds decoders with mutated messages, in a process of its own, and tells what was wrong.

Whatever ends that process, a signal too, its last message is known: it stands in memory that both share.

    python -m tests.fuzz.fuzzing CASES SEED FILE NAME…
"""

from __future__ import annotations

import logging
import mmap
import os
import random
import resource
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.mutations import Mutator

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 6 << 30
_SHARED_BYTES = 4 << 20
_HEAD = struct.Struct("<II")
_BATCH = 500  # cases of one random seed
_SHOWN_MAX = 12
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Decoder:
    """Something that reads bytes that others wrote."""

    name: str
    samples: Sequence[bytes]
    """What it reads when all is well."""
    read: Callable[[bytes], object]
    """Reads a message, after checksums and signatures were repaired, and does with it what its reader does."""
    declared: tuple[type[BaseException], ...]
    """What it may raise."""
    structured: bool = True
    """Whether messages are MessagePack."""
    cost: int = 1
    """It gets as many times fewer cases."""


class Wrong(Exception):
    """A decoder did what it must not do."""


def fuzz(decoder: Decoder, cases: int, seed: int, note: Callable[[int, bytes], None]) -> list[str]:
    """Feeds a decoder with so many messages; returns what went wrong, each kind once."""
    for sample in decoder.samples:
        note(-1, sample)
        try:
            decoder.read(sample)
        except Exception as error:
            raise Wrong(f"{decoder.name} cannot read its own sample {sample[:400].hex()}") from error
    mutator, wrong = Mutator(decoder.samples, structured=decoder.structured), dict[object, str]()
    for first in range(0, cases, _BATCH):
        rng = random.Random(f"{decoder.name}/{seed}/{first}")
        for number in range(first, min(first + _BATCH, cases)):
            message = mutator.draw(rng)
            note(number, message)
            try:
                decoder.read(message)
            except decoder.declared:
                pass
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - broken promises, too
                frames = traceback.extract_tb(error.__traceback__)
                last = frames[-1]
                place = type(error), last.filename, last.lineno
                if place not in wrong and len(wrong) < _SHOWN_MAX:
                    trace = "".join(traceback.format_exception(error)[-9:])
                    wrong[place] = f"{decoder.name}: case {number} of seed {seed}: {message[:400].hex()}\n{trace}"
    return list(wrong.values())


def run(names: Sequence[str], cases: int, seed: int, file: Path, timeout_s: float = 3_000) -> None:
    """Fuzzes decoders in a process of its own; raises `Wrong` if one of them does what it must not do."""
    with file.open("wb") as shared:
        shared.truncate(_SHARED_BYTES)
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.fuzz.fuzzing",
        str(cases),
        str(seed),
        str(file),
        *names,
    ]
    with TemporaryDirectory(prefix="holons-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        environment = {**os.environ, "TMPDIR": folder}  # what the process leaves goes with it, however it ends
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
            )
            ended, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            ended, said = "no end", f"{error.stdout}{error.stderr}"
    if ended != 0:
        name, number, message = _last(file)
        last = "" if ended == 1 else f"\nthe last was {name}, case {number} of seed {seed}: {message.hex()}"
        raise Wrong(f"{ended}: {said[-12_000:]}{last}")


def _last(file: Path) -> tuple[str, int, bytes]:
    data = file.read_bytes()
    number, size = _HEAD.unpack_from(data, 64)
    return data[:64].rstrip(b"\0").decode(), number - 1, data[64 + _HEAD.size :][: min(size, 4_000)]


def main(arguments: Sequence[str]) -> int:
    """Fuzzes the decoders with these names; 1 if something was wrong."""
    from tests.fuzz.register import DECODERS

    cases, seed, file, *names = arguments
    if not DECODERS.keys() >= set(names):
        from tests.fuzz import decoders, files, stored, values  # noqa: F401 - each registers its own
    logging.getLogger("holons").addHandler(logging.NullHandler())
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    wrong: list[str] = []
    with Path(file).open("r+b") as opened, mmap.mmap(opened.fileno(), _SHARED_BYTES) as shared:
        for name in names:
            decoder = DECODERS[name]()
            shared[:64] = name.encode()[:64].ljust(64, b"\0")

            def note(number: int, message: bytes) -> None:
                _HEAD.pack_into(shared, 64, number + 1, len(message))
                kept = message[: _SHARED_BYTES - 128]
                shared[64 + _HEAD.size : 64 + _HEAD.size + len(kept)] = kept

            began_s = time.perf_counter()
            wrong += fuzz(decoder, int(cases) // decoder.cost, int(seed), note)
            print(f"{name}: {int(cases) // decoder.cost} cases, {time.perf_counter() - began_s:.1f} s")
    print("\n".join(wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
