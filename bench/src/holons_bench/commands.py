"""The commands that this distribution adds to `holons`: `demo` and `bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from holons.cli.records import JsonFile, write_records

if TYPE_CHECKING:
    from holons_bench.records import Record


def demo(
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes; with more than one, one is killed.")] = 3,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions the stream has.")] = 4,
    rate: Annotated[int, typer.Option(min=100, help="Bids a second, over all partitions.")] = 150_000,
    seconds: Annotated[int, typer.Option(min=4, help="How long bids are written.")] = 20,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Node processes instead: no Java needed.")] = False,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the page with figures goes.")] = Path(
        "report.html"
    ),
    json_file: JsonFile = None,
) -> None:
    """Compute highest bids over a live stream on Spark, kill a node half way, and tell what that did.

    Spark tasks write Nexmark bids at a steady rate; nodes in other Spark tasks
    emit the highest bid of each second (query 7). One node's process is
    killed. Every window is checked, and a page with figures is written.

    [bold]Examples[/bold]

      holons demo
      holons demo --no-spark --nodes 4 --partitions 8
      holons demo --rate 300000 --seconds 30 --report /tmp/demo.html
      holons demo --json - | jq '.[] | select(.metric == "recovery")'
    """
    from holons_bench import demo as the_demo

    console = Console(stderr=str(json_file) == "-")
    right, records = the_demo.main(
        the_demo.DemoOptions(nodes, partitions, rate, seconds, not no_spark, report), console=console
    )
    if json_file is not None:
        write_records(records, json_file)
    if not right:
        raise typer.Exit(code=1)


bench = typer.Typer(no_args_is_help=True, help="Measure how fast Holons is on this machine.")


@bench.command()
def kernels(
    events: Annotated[int, typer.Option(min=1, help="How many events each kernel folds.")] = 20_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often; the best run counts.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """Fold a generated batch with every vectorised kernel, on one core.

    Records are flat, one for each figure: bench, case, system, metric, value, unit.

    [bold]Examples[/bold]

      holons bench kernels
      holons bench kernels --events 1000000 --repeat 3
      holons bench kernels --json kernels.json
      holons bench kernels --json - | jq '.[] | select(.metric == "rate")'
    """
    from holons_bench import kernels as the_kernels

    to_stdout = str(json_file) == "-"
    records = the_kernels.run(events, repeat=repeat, progress=sys.stdout.isatty() and not to_stdout)
    tell(records, json_file, the_kernels.show)


@bench.command()
def node(
    events: Annotated[int, typer.Option(min=1_000, help="How many events one node reads in each run.")] = 20_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often; the best run counts.")] = 5,
    seconds: Annotated[
        int, typer.Option(min=0, help="How long latency is measured, after a warm-up; [bold]0[/bold]: not at all.")
    ] = 20,
    rate: Annotated[int, typer.Option(min=2_000, help="Events a second while latency is measured.")] = 1_000_000,
    nodes: Annotated[int, typer.Option(min=1, help="Node processes while latency is measured.")] = 4,
    every_ms: Annotated[int, typer.Option(min=1, help="The producer appends so often, in milliseconds.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """Run nodes over logs on disk, exactly once: how much a node reads, and how soon windows are emitted.

    Throughput: one node, from its first tick until everything is emitted. Latency:
    several node processes at a steady rate, from the time at which a window's
    last event was due to its result being readable. All results are checked.

    [bold]Examples[/bold]

      holons bench node
      holons bench node --seconds 0                 [dim]# throughput only[/dim]
      holons bench node --events 2000000 --repeat 3 --rate 200000
      holons bench node --json node.json
    """
    from holons_bench import node as the_node
    from holons_bench import window_latency

    progress = sys.stdout.isatty() and str(json_file) != "-"
    records = the_node.run(events, repeat=repeat, progress=progress)
    latencies = (
        window_latency.run(seconds, rate_per_s=rate, nodes=nodes, period_us=1_000 * every_ms, progress=progress)
        if seconds
        else []
    )
    tell([*records, *latencies], json_file, lambda _: the_node.show(records))
    if latencies and str(json_file) != "-":
        window_latency.show(latencies)


@bench.command()
def recovery(
    seconds: Annotated[int, typer.Option(min=20, help="How long each scenario runs, after a warm-up.")] = 60,
    rate: Annotated[int, typer.Option(min=1_000, help="Bids a second, over all partitions.")] = 50_000,
    nodes: Annotated[int, typer.Option(min=3, help="How many nodes there are at first.")] = 5,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions the stream has.")] = 10,
    window_ms: Annotated[int, typer.Option(min=10, help="How long windows are, in milliseconds.")] = 100,
    timeout: Annotated[float, typer.Option(min=0.2, help="Seconds of silence after which a node is dead.")] = 0.4,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Node processes instead: no Java needed.")] = False,
    no_stock: Annotated[bool, typer.Option("--no-stock", help="Leave out stock Structured Streaming.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="A page with all latency curves.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Kill and stop nodes under a steady load, and tell what that costs in latency.

    Five scenarios, each without and with a second copy of every partition: no
    failure, two nodes killed together, 5 s apart, for good, and one stopped
    for 10 s; then the same for stock Structured Streaming. Takes some twenty
    minutes. All results are checked.

    [bold]Examples[/bold]

      holons bench recovery
      holons bench recovery --html recovery.html --json recovery.json
      holons bench recovery --no-spark --seconds 30 --window-ms 1000
    """
    from holons_bench import recovery as the_recovery

    plan = the_recovery.RecoveryPlan(
        seconds, nodes, partitions, rate, window_ms, not no_spark, failure_timeout_s=timeout
    )
    console = Console(stderr=True)
    runs = the_recovery.run(plan, progress=console.print)
    if not (no_spark or no_stock):
        runs = the_recovery.beside(runs, the_recovery.run_stock(plan, progress=console.print))
    records = the_recovery.records(runs)
    if html is not None:
        the_recovery.report(plan, runs, records).write(html)
    tell(records, json_file, the_recovery.show)


@bench.command()
def throughput(
    against: Annotated[
        str, typer.Option(help="Beside Holons: spark, flink, or both with a comma; an empty text: neither.")
    ] = "spark",
    queries: Annotated[str, typer.Option(help="Which of Nexmark's: q0, q1, q2, q4, q5, q7.")] = "",
    events: Annotated[int | None, typer.Option(min=1_000, help="How many events the others read in each run.")] = None,
    times: Annotated[
        int | None, typer.Option(min=1, help="Holons reads so many times as many: rates are compared.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often each of them runs, taking turns.")] = 5,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes, each in a Spark task.")] = 2,
    html: Annotated[Path | None, typer.Option(help="Write a page with a plot.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run Nexmark's q0, q1, q2, q4, q5 and q7 on Holons and on others: how many events a second each reads.

    The same events for all: stock Structured Streaming, and Flink SQL, which is
    fetched into an environment of its own. All warm, exactly once, on this
    machine, one at a time, each from what it reads best: a log, Parquet
    files. Our results are checked.

    [bold]Examples[/bold]

      holons bench throughput
      holons bench throughput --events 2000000 --repeat 3
      holons bench throughput --against spark,flink --html nexmark.html
      holons bench throughput --against flink --queries q5,q7 --repeat 1
    """
    from holons_bench import throughput as the_throughput

    records = the_throughput.run(
        events or the_throughput.EVENTS,
        queries=queries.split(",") if queries else the_throughput.QUERIES,
        against=against.split(",") if against else (),
        times=times or the_throughput.TIMES,
        repeat=repeat,
        nodes=nodes,
        progress=sys.stdout.isatty() and str(json_file) != "-",
    )
    if html is not None:
        the_throughput.report(records).write(html)
    tell(records, json_file, the_throughput.show)


@bench.command()
def latency(
    against: Annotated[str, typer.Option(help="Beside Holons: flink.")] = "",
    queries: Annotated[str, typer.Option(help="Which of q5 and q7.")] = "q5,q7",
    rate: Annotated[int, typer.Option(min=100, help="Bids per second.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=1, help="How long is measured, after a warm-up of 12 s.")] = 30.0,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes, each a process.")] = 2,
    html: Annotated[Path | None, typer.Option(help="Write a page with the histograms.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run q5 (10 s by 10 ms) and q7 under a steady load: how late are results?

    From the time at which a window's last bid is due until its result is there,
    whoever was late: no coordinated omission. Exactly once. All windows count.

    [bold]Examples[/bold]

      holons bench latency
      holons bench latency --against flink --html latency.html
      holons bench latency --queries q7 --rate 200000 --seconds 10
    """
    from holons_bench import latency as the_latency

    progress = sys.stdout.isatty() and str(json_file) != "-"
    latencies = the_latency.run(
        rate,
        seconds=seconds,
        queries=queries.split(","),
        against=against.split(",") if against else (),
        nodes=nodes,
        progress=progress,
    )
    if html is not None:
        the_latency.report(latencies, rate).write(html)
    tell(the_latency.records(latencies), json_file, the_latency.show)


@bench.command()
def dataframes(
    rows: Annotated[int, typer.Option(min=1_000, help="How many rows are read, and folded.")] = 10_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often each of the two runs, taking turns.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """Read a stream as a DataFrame, and fold a program over Parquet files, beside what Spark itself needs.

    Rows of four integers through [bold]format("holons")[/bold] and from Parquet; a
    program over Parquet files ([bold]h.fold[/bold]) and Spark's own aggregation
    of the same files. Both warm, in one session. All results are checked.

    [bold]Examples[/bold]

      holons bench dataframes
      holons bench dataframes --rows 1000000 --repeat 3
      holons bench dataframes --json dataframes.json
    """
    from holons_bench import dataframes as the_dataframes

    progress = sys.stdout.isatty() and str(json_file) != "-"
    tell(the_dataframes.run(rows, repeat=repeat, progress=progress), json_file, the_dataframes.show)


@bench.command()
def count(
    figures: Annotated[str, typer.Option(help="Which of the paper's figures: 7, 8, 9, 10; all by default.")] = "",
    schemes: Annotated[str, typer.Option(help="Which schemes, with commas; all by default.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Small windows, and few of them.")] = False,
    floats: Annotated[bool, typer.Option("--floats", help="Positions are floats, and their sum is exact.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="A page with all figures.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run count windows in Deco's schemes and in ours, over the same rows: how fast each is, and what it sends.

    One process, rows of generated position sensors in memory, rates that change.
    [bold]ruler[/bold] is what nodes run. All windows are compared with those of
    [bold]central[/bold]; of approx it is told how wrong it is.

    [bold]Examples[/bold]

      holons bench count --quick
      holons bench count --html count.html --json count.json
      holons bench count --figures 10 --schemes async,ruler
      holons bench count --figures 7 --floats
    """
    from holons_bench import count as the_count

    records = the_count.run(
        figures=figures.split(",") if figures else (),
        schemes=schemes.split(",") if schemes else (),
        quick=quick,
        floats=floats,
        progress=sys.stdout.isatty() and str(json_file) != "-",
    )
    if html is not None:
        the_count.report(records).write(html)
    tell(records, json_file, the_count.show)


def tell(records: list[Record], json_file: Path | None, show: Callable[[list[Record]], None]) -> None:
    """Writes records for machines if asked to, and prints a table unless standard output is for machines."""
    if json_file is not None:
        write_records(records, json_file)
    if str(json_file) != "-":
        show(records)
