"""`holons run`: a job on nodes in processes of their own, or in Spark tasks, with a table of what they do."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from holons.arrow import python_rows
from holons.cli.jobs import load_job, named_files
from holons.cli.rows import rows_table
from holons.cli.status import WaitingLines, long_wait, status_table
from holons.cli.terminal import Terminal
from holons.disk import Durability, check_durability
from holons.engines import EngineName, Run, run
from holons.engines.choosing import check_engine
from holons.engines.collecting import output_logs
from holons.engines.directory_site import DirectorySite
from holons.engines.scratch import scratch
from holons.errors import BadInput, InputTrimmed
from holons.names import encoded
from holons.node import Settings, no_disk
from holons.program import Job
from holons.streams import ByTime, FileSink, LoadProgress, ReadableLog, load
from holons.windows import END

if TYPE_CHECKING:
    from holons.engines.spark.frames import SparkSession

_LOOK_S = 0.1
_SAME_AGAIN = {
    "engine": "--engine",
    "master": "--master",
    "nodes": "--nodes",
    "replicas": "--replicas",
    "store": "--store",
    "idle": "--idle",
    "durability": "--durability",
    "output": "--output",
    "format": "--format",
    "time": "--time",
    "unit": "--unit",
}
"""The options with which a run goes on as it was, by their names in `RunOptions`."""
_ROWS_SHOWN = 8


@dataclass(frozen=True)
class RunOptions:
    """The options of `holons run`."""

    job: str
    nodes: int = 2
    directory: Path | None = None
    inputs: Sequence[str] = ()
    replicas: int = 1
    store: str | None = None
    output: Path | None = None
    format: str = "parquet"
    idle: str = "auto"
    """After how many seconds without rows a partition holds up nobody; or `auto`, or `never`."""
    upgrade: bool = False
    engine: str = "spark"
    master: str | None = None
    time: str | None = None
    unit: str = "hour"
    durability: str = "process"
    again: str = ""
    """The command that goes on after a stop, if it is not `holons run` with the same job; without the options above."""


def main(options: RunOptions) -> list[dict[str, object]]:
    """Runs a job until its inputs have ended and everything is emitted, or until Ctrl-C; returns flat records."""
    console = Terminal(stderr=True)
    check(options)
    job = load_job(options.job)
    with site_of(options) as site:
        _load(site, job, named_files(options.inputs), console)
        return run_over(site, job, options, console)


@contextlib.contextmanager
def site_of(options: RunOptions) -> Iterator[DirectorySite]:
    """Opens the site: in the directory that was named, or in a temporary one."""
    if options.directory is not None:
        yield DirectorySite(options.directory, options.store, cast(Durability, options.durability))
        return
    with scratch() as temporary:
        yield DirectorySite(temporary, options.store)


def run_over(site: DirectorySite, job: Job, options: RunOptions, console: Console) -> list[dict[str, object]]:
    """Runs a job over the streams of a site."""
    _check_streams(site, job)
    settings = Settings(
        replicas=options.replicas, idle_s=_idle_s(options.idle), durability=cast(Durability, options.durability)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputTrimmed)  # it is printed instead
        handle = run(
            job,
            nodes=options.nodes,
            engine=cast(EngineName, options.engine),  # `check` has looked at it
            log=site.directory,
            store=options.store,
            upgrade=options.upgrade,
            spark_session=_session(options),
            settings=settings,
        )
    with handle:
        if handle.trimmed_inputs:
            console.print(f"warning: {handle.trimmed_inputs}", soft_wrap=True, markup=False, highlight=False)
        finished = _watch(handle, console)
    return _report(site, job, handle.version, options, finished=finished, console=console)


def _session(options: RunOptions) -> SparkSession | None:
    """Returns the session of the master that was named; without one the run opens a session of its own."""
    if options.master is None:
        return None
    from holons.engines.spark.session import session

    return session(options.nodes, options.master)


def check(options: RunOptions) -> None:
    """Raises `BadInput` for options that cannot work, before anything is read or started."""
    check_engine(options.engine, spark=options.master is not None)
    check_durability(options.durability)
    if options.durability == "disk" and options.directory is None:
        raise no_disk()
    _idle_s(options.idle)
    if options.format not in ("parquet", "jsonl"):
        raise BadInput(f"no files of format {options.format!r}", hint="--format parquet, or --format jsonl")
    if options.time is not None:
        ByTime(options.time, options.unit)  # type: ignore[arg-type]
        if options.output is None:
            raise BadInput("--time without files", hint="--output DIR says where they go")
    if options.output is not None and options.output.exists() and not options.output.is_dir():
        raise BadInput(f"{options.output} is a file", hint="--output names a folder")
    if options.replicas > options.nodes:
        raise BadInput(
            f"{options.replicas} copies of each partition on {options.nodes} nodes",
            hint=f"copies run on different nodes: --nodes {options.replicas} or more",
        )


def _idle_s(idle: str) -> float | Literal["auto"] | None:
    """Returns what the settings call what was asked for with `--idle`."""
    if idle == "auto":
        return "auto"
    if idle == "never":
        return None
    try:
        seconds = float(idle)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise BadInput(f"--idle is {idle!r}", hint="seconds, or auto, or never")
    return seconds


def _load(site: DirectorySite, job: Job, files: dict[str, list[Path]], console: Console) -> None:
    """Puts files into streams, one for each partition, and ends them."""
    streams = site.streams()
    for stream, paths in files.items():
        if stream not in {source.stream for source in job.inputs}:
            raise BadInput(f"the job does not read {stream!r}", hint=f"it reads {_names(job)}")
        if stream in streams:
            raise BadInput(
                f"stream {stream!r} is in {site.name} already",
                hint="leave out --input to go on with it, or choose another --log directory",
            )
        columns = (
            TextColumn(f"reading {escape(stream)}"),
            BarColumn(),
            TextColumn("{task.completed:,} rows"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(stream, total=None)
            with site.loading(stream, len(paths)) as log:
                load(log, paths, end=END.ts, progress=partial(_advance, progress, task))
                _check_time(stream, job, log)


def _advance(progress: Progress, task: TaskID, at: LoadProgress) -> None:
    progress.update(task, completed=at.rows)


def _check_time(stream: str, job: Job, log: ReadableLog) -> None:
    time = next(source.time for source in job.inputs if source.stream == stream)
    for partition in range(log.partitions):
        for chunk in log.read(partition, 0, 1):
            if chunk.rows is not None and time not in chunk.rows.schema.names:
                names = ", ".join(chunk.rows.schema.names)
                hint = f"name one of {names}: {job.program._time_hint(stream)}"
                raise BadInput(f"{stream!r} has no time column {time!r}", hint=hint)


def _check_streams(site: DirectorySite, job: Job) -> None:
    streams = site.streams()
    for source in job.inputs:
        if source.stream not in streams:
            raise BadInput(
                f"the job reads {source.stream!r}, and there is no such stream",
                hint=f"pass files, one for each partition: --input {source.stream}=FILE.parquet",
            )


def _names(job: Job) -> str:
    return ", ".join(source.stream for source in job.inputs)


# --- while it runs ----------------------------------------------------------------------------------------------------


def _watch(handle: Run, console: Console) -> bool:
    """Shows the status until everything is emitted, and returns True; after Ctrl-C it returns False."""
    signal.signal(signal.SIGTERM, _interrupt)  # as Ctrl-C does: with a checkpoint
    lines = WaitingLines()
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        try:
            while not handle.ended_within(_LOOK_S):
                live.update(status_table(handle.progress))
                if not console.is_terminal and (line := lines.new_line(handle.progress)):
                    console.print(line, soft_wrap=True, markup=False, highlight=False)
            handle.wait()
        except KeyboardInterrupt:
            if waiting := long_wait(handle.progress):
                text = f"It was waiting for {waiting}."
                console.print(text, soft_wrap=not console.is_terminal, markup=False, highlight=False)
            return False
    return True


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# --- afterwards -------------------------------------------------------------------------------------------------------


def _report(
    site: DirectorySite, job: Job, version: str, options: RunOptions, *, finished: bool, console: Console
) -> list[dict[str, object]]:
    records: list[dict[str, object]] = []
    declared = list(job.layout.channels)
    logs = output_logs(site, version)
    for channel in sorted(logs, key=lambda name: (name not in declared, name)):
        with contextlib.closing(logs[channel]()) as log:
            rows = sum(log.end(partition) for partition in range(log.partitions))
            records.append({"job": version, "channel": channel, "rows": rows, "finished": finished})
            console.print(_last_rows(channel, log, rows, console.width))
            if options.output is not None:
                by = ByTime(options.time, options.unit) if options.time and channel in declared else None  # type: ignore[arg-type]
                folder = options.output / _folder_of(version)
                durability = cast(Durability, options.durability)
                sink = FileSink(folder, channel, options.format, durability=durability, by=by)  # type: ignore[arg-type]
                sink.drain(log)
    where = f"\nThe streams are in {options.directory}: holons log ls {options.directory}" if options.directory else ""
    if options.output is not None:
        where += f"\nIts rows are in {options.output / _folder_of(version)}."
    done = "All inputs have ended, and everything is emitted." if finished else _stopped(options)
    console.print(f"{done}{where}", markup=False, highlight=False, soft_wrap=True)
    return records


def _folder_of(version: str) -> str:
    """Returns the folder for the rows of a job's version; its id has a hash, so that no two differ by case alone."""
    return encoded(version, keep_case=True)


def _stopped(options: RunOptions) -> str:
    if options.directory is None:
        return "Stopped; nothing was kept, since there was no --log."
    return f"Stopped. To go on: {_again(options)}"


def _again(options: RunOptions) -> str:
    """Returns the command that goes on with a run: with its options that are not the defaults, but without its inputs."""
    default = RunOptions(options.job)
    command = options.again or shlex.join(["holons", "run", options.job, "--log", str(options.directory)])
    for name, option in _SAME_AGAIN.items():
        if (value := getattr(options, name)) != getattr(default, name):
            command += f" {option} {shlex.quote(str(value))}"
    return command


def _last_rows(channel: str, log: ReadableLog, rows: int, width: int) -> Table:
    """The last rows of the partitions, a few of each."""
    ends = {partition: log.end(partition) for partition in range(log.partitions) if log.end(partition)}
    each = max(1, _ROWS_SHOWN // max(1, len(ends)))
    shown = []
    for partition, end in ends.items():
        for chunk in log.read(partition, max(end - each, log.start(partition)), each):
            if chunk.rows is not None:
                shown += [{"partition": partition, **row} for row in python_rows(chunk.rows)]
    shown = shown[:_ROWS_SHOWN]
    title = f"{channel}: {rows:,} rows" + (", the last:" if rows > len(shown) else "")
    return rows_table(title, shown, width)
