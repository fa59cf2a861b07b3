"""Where Flink lives: a virtual environment in a cache directory, made when it is first asked for.

It holds `apache-flink-libraries`, which is all of Flink's jars, and py4j, which starts a JVM with them. `apache-flink`
itself, Flink's Python API, is left out: it wants certain versions of Python and half a gigabyte of packages, and a job
in SQL needs none of that. Parquet is not among Flink's own jars, and its reader wants some of Hadoop: Maven gets these.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holons.engines.locks import locked
from holons.errors import JavaMissing, MissingExtra

VERSION: Final = "2.3.0"
PACKAGES: Final = (f"apache-flink-libraries=={VERSION}", "py4j==0.10.9.7")
JARS: Final = (
    f"org.apache.flink:flink-sql-parquet:{VERSION}",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
_PATIENCE_S: Final = 900
_TAIL: Final = 600
_READY: Final = "ready"


@dataclass(frozen=True)
class FlinkEnvironment:
    """Flink on this machine: a Python that can start it, and what belongs on the class path."""

    python: Path
    java: Path
    jars: tuple[Path, ...]
    room: Path

    def compile(self, source: Path) -> Path:
        """Returns where the classes of a Java file are; it is compiled if it is new, which takes a JDK."""
        text = source.read_bytes()
        classes = self.room / f"classes-{hashlib.sha256(text).hexdigest()[:16]}"
        with _alone(self.room):
            if not classes.exists():
                compiler = self.java.resolve().with_name("javac")
                if not compiler.exists():
                    raise JavaMissing(f"no {compiler} to compile {source.name}", hint="install a JDK, not only a JRE")
                aside = Path(tempfile.mkdtemp(prefix="classes-", dir=self.room))
                path = os.pathsep.join(map(str, self.jars))
                _run([str(compiler), "-nowarn", "-cp", path, "-d", str(aside), str(source)], "is it a JDK 17?")
                aside.rename(classes)
        return classes


def cache_directory() -> Path:
    """Returns the folder for what is kept between runs: `$HOLONS_CACHE`, else `holons` in the user's cache directory."""
    if folder := os.environ.get("HOLONS_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holons"


def environment(cache: Path | None = None) -> FlinkEnvironment:
    """Returns Flink's environment; it is made if there is none, which takes a minute and needs the package registries."""
    java = find_java()
    room = (cache or cache_directory()) / f"flink-{VERSION}"
    room.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join((*PACKAGES, *JARS))
    with _alone(room):
        if not (room / _READY).exists() or (room / _READY).read_text() != wanted:
            _make(room)
            (room / _READY).write_text(wanted)
    libraries = sorted(room.glob("venv/lib/python3.*/site-packages/pyflink/lib/*.jar"))
    if not libraries:
        raise MissingExtra(f"no jars of Flink in {room}", hint="remove this directory, and it will be made anew")
    return FlinkEnvironment(
        room / "venv" / "bin" / "python", java, (*libraries, *sorted((room / "jars").glob("*.jar"))), room
    )


def find_java() -> Path:
    """Returns the Java that Flink will run on, where everybody looks: JAVA_HOME, else PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise JavaMissing(
            "Flink needs Java, and none was found",
            hint="install Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME",
        )
    return Path(java)


def _make(room: Path) -> None:
    """Makes everything in a room, from nothing."""
    shutil.rmtree(room / "venv", ignore_errors=True)
    shutil.rmtree(room / "jars", ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(room / "venv")], "is this Python's venv module there (python3-venv)?")
    pip = [str(room / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    _run([*pip, *PACKAGES], "is the package registry reachable (250 MB), and is there room for 600 MB?")
    maven = shutil.which("mvn")
    by_hand = f"or put them into {room / 'jars'} by hand, and the lines PACKAGES and JARS into {room / _READY}"
    if maven is None:
        raise MissingExtra(
            f"Maven gets {', '.join(JARS)}, and there is no mvn",
            hint=f"install Maven (apt-get install maven), {by_hand}",
        )
    for jar in JARS:
        target = [f"-Dartifact={jar}", f"-DoutputDirectory={room / 'jars'}"]
        _run(
            [maven, "--quiet", "--batch-mode", "dependency:copy", *target], f"is Maven's registry reachable? {by_hand}"
        )


def _run(command: Sequence[str], hint: str) -> None:
    """Runs a command to its end, or tells why it did not get there."""
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise MissingExtra(f"{' '.join(command)}: no end in {_PATIENCE_S} s", hint=hint) from None
    if done.returncode:
        raise MissingExtra(f"{' '.join(command)} failed: {(done.stderr or done.stdout)[-_TAIL:].strip()}", hint=hint)


def _alone(room: Path) -> AbstractContextManager[None]:
    """Holds a lock, so that only one process at a time makes an environment; the others wait for it."""
    busy = MissingExtra(f"another process has been making {room} for {_PATIENCE_S} s", hint="wait for it, or end it")
    return locked(room / "lock", _PATIENCE_S, busy)
