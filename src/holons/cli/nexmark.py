"""`holons nexmark`: its queries, run and checked on any engine; and its events, written into streams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from holons.cli.records import JsonFile, write_records
from holons.cli.terminal import Terminal
from holons.errors import BadInput

if TYPE_CHECKING:
    from holons.engines.directory_site import DirectorySite
    from holons.nexmark.load import Load
    from holons.nexmark.verify import Comparison, Streams
    from holons.program import Collected
    from holons.program.dataflow import Flow

nexmark = typer.Typer(no_args_is_help=True, help="Nexmark's queries and events: list, run, verify, generate.")

_SHOWN = 5
"""How many differing rows of each side are shown."""
_BATCH_ROWS = 16_384

Events = Annotated[int, typer.Option(min=0, help="How many events: 1 of 50 a person, 3 auctions, 46 bids.")]
Seed = Annotated[
    int, typer.Option(min=0, help="Another seed, other events; the simulator also draws its faults by it.")
]
Partitions = Annotated[int, typer.Option(min=1, help="How many partitions each of the three streams has.")]
Group = Annotated[int, typer.Option(min=1, help="Events come out of order within groups of so many; 1: in order.")]
Rate = Annotated[int, typer.Option(min=1, help="Events a second, in event time: how many fall into a window.")]
Told = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAME=MICROSECONDS", help="A parameter, for those queries that have it."),
]
Nodes = Annotated[int, typer.Option(min=1, help="How many nodes.")]


@nexmark.command("list")
def list_queries(json_file: JsonFile = None) -> None:
    """List the queries: what each one gives, and what it can be told.

    Parameters are in microseconds. There is no q12, which counts by the clock on the wall.

    [bold]Examples[/bold]

      holons nexmark list
      holons nexmark list --json - | jq -r '.[].query'
    """
    from holons.nexmark.answers import PARAMETERS, description
    from holons.nexmark.queries import QUERIES

    if json_file is not None:
        told = [{"query": one, "gives": description(one), "parameters": dict(PARAMETERS[one])} for one in QUERIES]
        write_records(told, json_file)
    if str(json_file) == "-":
        return
    table = Table("query", "gives", "parameters", title="Nexmark", title_justify="left")
    for one in QUERIES:
        told_parameters = "\n".join(f"{name}={value:_}" for name, value in PARAMETERS[one].items())
        table.add_row(one, escape(description(one)), told_parameters)
    Terminal().print(table)


@nexmark.command()
def run(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One that `holons nexmark list` shows.")],
    events: Events = 1_000_000,
    seed: Seed = 0,
    partitions: Partitions = 3,
    group: Group = 1,
    rate: Rate = 10_000,
    told: Told = None,
    nodes: Nodes = 2,
    engine: Annotated[
        str, typer.Option(help="[bold]spark[/bold]: nodes are Spark tasks; [bold]embedded[/bold]: processes, no Java.")
    ] = "spark",
    directory: Annotated[
        Path | None,
        typer.Option("--log", metavar="DIR", help="Where streams are kept; with Nexmark's in it, those are read."),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the rows into Parquet files here.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run a query over generated events on nodes, as [bold]holons run[/bold] does, and show its last rows.

    With [bold]--log[/bold] the events are kept, and another query reads the same ones; say the same rate and group then.

    [bold]Examples[/bold]

      holons nexmark run q7
      holons nexmark run q5 --with every_us=1000000 --nodes 4 --partitions 8
      holons nexmark run q4 --log site --engine embedded   [dim]# makes the events[/dim]
      holons nexmark run q6 --log site --engine embedded   [dim]# reads them again[/dim]
      holons why nexmark:q4 2015-07-15T00:00:10 --log site
    """
    from holons.cli import run as the_run
    from holons.nexmark.load import Load
    from holons.nexmark.queries import query as job_of

    load = Load(events, seed, partitions, rate, group)
    job = job_of(query, rate=rate, disorder_us=load.disorder_us, **_parameters(told or (), [query])[query])
    again = f"holons nexmark run {query} --log {directory} --rate {rate} --group {group}"
    again += "".join(f" --with {one}" for one in told or ())
    options = the_run.RunOptions(f"nexmark:{query}", nodes, directory, output=output, engine=engine, again=again)
    the_run.check(options)
    console = Terminal(stderr=True)
    with the_run.site_of(options) as site:
        if not set(load.streams) <= site.streams().keys():
            _write(load, site, console)
        records = the_run.run_over(site, job, options, console)
    if json_file is not None:
        write_records(records, json_file)


@nexmark.command()
def verify(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY", help="[bold]q4[/bold], several, or all.")],
    events: Events = 10_000,
    seed: Seed = 0,
    partitions: Partitions = 3,
    engine: Annotated[
        str,
        typer.Option(
            help="Who runs it: [bold]embedded[/bold], processes, spark, fold (over DataFrames), simulator (under faults), "
            "oracle. The last two are slow: a thousand events."
        ),
    ] = "embedded",
    group: Group = 1,
    rate: Rate = 1_000,
    nodes: Nodes = 2,
    rows: Annotated[int, typer.Option(min=1, help="How many rows make a batch.")] = 997,
    told: Told = None,
    json_file: JsonFile = None,
) -> None:
    """Run queries over generated events, and compare every row with DuckDB's answer.

    Rows are compared as bags: same columns, same types, floats bit for bit.
    If they differ, the first rows of both sides are shown, and the exit code is 1.
    DuckDB comes with [bold]pip install 'holons\\[nexmark]'[/bold].

    [bold]Examples[/bold]

      holons nexmark verify all
      holons nexmark verify q4 --events 100000 --group 500 --partitions 8
      holons nexmark verify q5 --with size_us=3000000 --with every_us=700000
      holons nexmark verify q4 q7 --engine spark --events 2000
      holons nexmark verify q8 --engine simulator --events 600 --seed 17
    """
    from holons.nexmark.load import Load

    load = Load(events, seed=seed, partitions=partitions, rate=rate, group=group)
    chosen = _chosen(queries)
    console = Terminal(stderr=str(json_file) == "-")
    seen = list(_verified(chosen, load, _Way(engine, nodes, rows), _parameters(told or (), chosen), console))
    console.print(_summary(seen, load, engine))
    for one in seen:
        _tell_differences(one, console)
    if json_file is not None:
        write_records([one.record(engine, load.seed) for one in seen], json_file)
    if not all(one.same for one in seen):
        raise typer.Exit(code=1)


@nexmark.command()
def generate(
    directory: Annotated[Path, typer.Option("--log", metavar="DIR", help="Where the streams go.")],
    events: Events = 1_000_000,
    seed: Seed = 0,
    partitions: Partitions = 3,
    group: Group = 1,
    rate: Rate = 10_000,
) -> None:
    """Write people, auctions and bids into a log directory, as streams that jobs read. They have an end.

    [bold]Examples[/bold]

      holons nexmark generate --log site
      holons nexmark generate --log site --events 10000000 --partitions 8 --group 500
      holons log ls site
      holons nexmark run q4 --log site
    """
    from holons.engines.directory_site import DirectorySite
    from holons.nexmark.load import Load

    load, site, console = Load(events, seed, partitions, rate, group), DirectorySite(directory), Terminal(stderr=True)
    _write(load, site, console)
    counts = ", ".join(f"{load.count(stream):,} {stream}" for stream in load.streams)
    grouped = "" if group == 1 else f" --group {group}"
    told = "" if load.disorder_us == 0 else f", disorder_us={load.disorder_us:_}"
    console.print(
        f"{counts}, in {partitions} partitions each, are in {escape(str(directory))}. To run a query over them:\n\n"
        f"  holons nexmark run q4 --log {escape(str(directory))} --rate {rate}{grouped}\n\n"
        f"  from holons.nexmark import query\n"
        f'  run = h.run(query("q4", rate={rate:_}{told}), log="{escape(str(directory))}")',
        soft_wrap=True, highlight=False,
    )  # fmt: skip


def _write(load: Load, site: DirectorySite, console: Console) -> None:
    """Puts a load's events into streams of their own, and ends them: all or none."""
    from holons.windows import END

    there = sorted(site.streams().keys() & set(load.streams))
    if there:
        raise BadInput(f"stream {there[0]!r} is in {site.name} already", hint="choose another --log directory")
    with _progress(console, "events", load.events) as progress, ExitStack() as loading:
        for stream in load.streams:
            log = loading.enter_context(site.loading(stream, load.partitions))
            for partition in range(load.partitions):
                for batch in load.batches(stream, partition, rows=_BATCH_ROWS):
                    log.append(partition, batch, live=False)
                    progress.advance(progress.task_ids[0], batch.num_rows)
                log.mark(partition, END.ts)


# --- verifying --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Way:
    """How queries are run."""

    engine: str
    nodes: int
    rows: int


@dataclass(frozen=True)
class Verified:
    """One query: how it compares, and how long its run took."""

    comparison: Comparison
    seconds: float

    @property
    def same(self) -> bool:
        return self.comparison.same

    def record(self, engine: str, seed: int) -> dict[str, object]:
        """The same for machines."""
        one = self.comparison
        return {
            "query": one.query,
            "engine": engine,
            "seed": seed,
            "rows": one.rows,
            "expected": one.expected,
            "seconds": round(self.seconds, 3),
            "same": one.same,
            "difference": "" if one.same else str(one),
        }


def _chosen(given: Sequence[str]) -> list[str]:
    from holons.nexmark.queries import QUERIES

    wanted = list(QUERIES) if "all" in given else list(dict.fromkeys(given))
    for one in wanted:
        if one not in QUERIES:
            raise BadInput(f"there is no query {one!r}", hint=f"all, or some of {', '.join(QUERIES)}")
    return wanted


def _parameters(given: Sequence[str], queries: Sequence[str]) -> dict[str, dict[str, int]]:
    """What each query is told. A parameter that none of them has is a mistake."""
    from holons.nexmark.answers import PARAMETERS

    told: dict[str, dict[str, int]] = {one: {} for one in queries}
    for text in given:
        name, _, value = text.partition("=")
        if not value.replace("_", "").isdigit():
            raise BadInput(f"--with {text!r} cannot be read", hint="write --with window_us=500000")
        meant = [one for one in queries if name in PARAMETERS[one]]
        if not meant:
            raise BadInput(
                f"none of these queries has a parameter {name!r}", hint="`holons nexmark list` tells what there is"
            )
        for one in meant:
            told[one][name] = int(value)
    return told


def _verified(
    queries: Sequence[str], load: Load, way: _Way, told: dict[str, dict[str, int]], console: Console
) -> Iterator[Verified]:  # fmt: skip
    from holons.cli.nexmark_engines import runner
    from holons.nexmark.verify import streams_of
    from holons.nexmark.verify import verify as compared

    run, streams = runner(way.engine, way.nodes, load.seed), streams_of(load, way.rows)
    taken: list[float] = []

    def timed(job: Flow, given: Streams) -> Collected:
        began_s = time.perf_counter()
        try:
            return run(job, given)
        finally:
            taken.append(time.perf_counter() - began_s)

    with _progress(console, "queries", len(queries)) as progress:
        for one in queries:
            progress.update(progress.task_ids[0], description=one)
            options = {"rate": load.rate, "disorder_us": load.disorder_us, **told[one]}
            comparison = compared(one, streams, timed, **options)
            progress.advance(progress.task_ids[0])
            yield Verified(comparison, taken.pop())


@contextmanager
def _progress(console: Console, what: str, total: int) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=total)
        yield progress


def _summary(seen: Sequence[Verified], load: Load, engine: str) -> Table:
    order = "in order" if load.group == 1 else f"out of order in groups of {load.group}"
    title = f"Nexmark on {engine}: {load.events:,} events, seed {load.seed}, {load.partitions} partitions, {order}"
    table = Table(title=title, title_justify="left")
    for name in ("query", "rows", "expected", "seconds", "same"):
        table.add_column(name, justify="left" if name in ("query", "same") else "right")
    for one in seen:
        rows, expected = f"{one.comparison.rows:,}", f"{one.comparison.expected:,}"
        verdict = "[green]yes[/]" if one.same else "[bold red]no[/]"
        table.add_row(one.comparison.query, rows, expected, f"{one.seconds:.2f}", verdict)
    return table


def _tell_differences(one: Verified, console: Console) -> None:
    """What is wrong with a query, with the first rows of both sides."""
    if one.same:
        return
    comparison = one.comparison
    console.print(f"\n[bold]{comparison.query}[/] [red]differs[/]", highlight=False)
    if comparison.set_aside:
        console.print(f"  {comparison.set_aside:,} rows of its input were late or broken", highlight=False)
    if comparison.columns:
        console.print(f"  {escape(comparison.columns)}", soft_wrap=True, highlight=False)
    for title, frame in (("found, not expected", comparison.extra), ("expected, not found", comparison.missing)):
        if not len(frame):
            continue
        told = f"{title}: {len(frame):,} rows" + (f", the first {_SHOWN}" if len(frame) > _SHOWN else "")
        table = Table(*map(escape, frame.columns), title=told, title_justify="left")
        for row in frame.head(_SHOWN).rows():
            table.add_row(*(escape(repr(cell) if isinstance(cell, float) else str(cell)) for cell in row))
        console.print(table)
