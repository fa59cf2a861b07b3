"""The `holons` command: what it offers, and how errors reach a person.

Every command is a thin shell: it reads its options and calls the room that does the work, which is imported only
then, so that `holons --help` does not wait for Spark.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holons.errors import HolonsError

app = typer.Typer(
    name="holons",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Each command has examples of its own: [bold]holons demo --help[/bold]",
)
bench = typer.Typer(no_args_is_help=True, help="Measure how fast Holons is on this machine.")
app.add_typer(bench, name="bench")


@dataclass
class Settings:
    """What the options before the command decide."""

    debug: bool = False


@app.callback()
def settings(
    context: typer.Context,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="HOLONS_DEBUG", help="Show the whole traceback when something fails.")
    ] = False,
) -> None:
    """One number over [italic]all[/italic] partitions of a stream, without a shuffle.

    Holons folds each partition's events into small per-window contributions,
    replicates them as windowed CRDTs, and reads a window once every partition
    has sealed it.

    [bold]Examples[/bold]

      holons demo                    [dim]# one program on every engine, compared[/dim]
      holons demo --no-spark         [dim]# without Spark: no Java needed[/dim]
      holons bench kernels --json -  [dim]# speed of the kernels, for machines[/dim]
      holons bench node              [dim]# speed of nodes over LMDB logs[/dim]
      holons --debug demo            [dim]# with tracebacks[/dim]
    """
    context.ensure_object(Settings).debug = debug


@app.command()
def demo(
    events: Annotated[int, typer.Option(min=1, help="How many events to generate, over all partitions.")] = 50_000,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions the stream has.")] = 4,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Leave Spark out: no Java needed.")] = False,
) -> None:
    """Run one program on every engine, and compare what they give byte for byte.

    Generates an auction stream (Nexmark) and computes each partition's share
    of all bids, per second: sequentially, on embedded nodes, and on Spark.

    [bold]Examples[/bold]

      holons demo
      holons demo --events 20000 --partitions 8
      holons demo --no-spark
    """
    from holons.cli import demo as the_demo

    if not the_demo.main(events=events, partitions=partitions, spark=not no_spark):
        raise typer.Exit(code=1)


@bench.command()
def kernels(
    events: Annotated[int, typer.Option(min=1, help="How many events each kernel folds.")] = 20_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often; the best run counts.")] = 5,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write flat records here instead of a table ([bold]-[/bold]: stdout)."
        ),
    ] = None,
) -> None:
    """Fold a generated batch with every vectorised kernel, on one core.

    Records are flat, one for each figure: bench, case, system, metric, value, unit.

    [bold]Examples[/bold]

      holons bench kernels
      holons bench kernels --events 1000000 --repeat 3
      holons bench kernels --json kernels.json
      holons bench kernels --json - | jq '.[] | select(.metric == "rate")'
    """
    from holons.bench import kernels as the_kernels

    to_stdout = str(json_file) == "-"
    records = the_kernels.run(events, repeat=repeat, progress=sys.stdout.isatty() and not to_stdout)
    if json_file is None:
        the_kernels.show(records)
    else:
        write_records(records, json_file)


@bench.command()
def node(
    events: Annotated[int, typer.Option(min=1_000, help="How many events one node reads in each run.")] = 20_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="How often; the best run counts.")] = 5,
    seconds: Annotated[
        int, typer.Option(min=0, help="How long latency is measured, after a warm-up; [bold]0[/bold]: not at all.")
    ] = 20,
    rate: Annotated[int, typer.Option(min=2_000, help="Events a second while latency is measured.")] = 1_000_000,
    nodes: Annotated[int, typer.Option(min=1, help="Node processes while latency is measured.")] = 4,
    every_ms: Annotated[int, typer.Option(min=1, help="The producer appends so often, in milliseconds.")] = 2,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write flat records here instead of tables ([bold]-[/bold]: stdout)."
        ),
    ] = None,
) -> None:
    """Run nodes over LMDB logs, exactly once: how much one takes in, and how soon windows are out.

    Throughput: one node, from its first tick until everything is out. Latency:
    several node processes at a steady rate, from the time at which a window's
    last event was due to its result being readable. All results are checked.

    [bold]Examples[/bold]

      holons bench node
      holons bench node --seconds 0                 [dim]# throughput only[/dim]
      holons bench node --events 2000000 --repeat 3 --rate 200000
      holons bench node --json node.json
    """
    from holons.bench import node as the_node
    from holons.bench import window_latency

    progress = sys.stdout.isatty() and str(json_file) != "-"
    records = the_node.run(events, repeat=repeat, progress=progress)
    latencies = (
        window_latency.run(seconds, rate_per_s=rate, nodes=nodes, period_us=1_000 * every_ms, progress=progress)
        if seconds
        else []
    )
    if json_file is not None:
        write_records([*records, *latencies], json_file)
        return
    the_node.show(records)
    if latencies:
        window_latency.show(latencies)


@app.command()
def version() -> None:
    """Print the version, and what it runs on."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"holons {importlib.metadata.version('holons')} (Python {python})")


def write_records(records: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write `records` as one JSON array to `file`, or to standard output if it is called `-`."""
    text = json.dumps([dict(record) for record in records], indent=1) + "\n"
    if str(file) == "-":
        sys.stdout.write(text)
    else:
        file.write_text(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`, with code 1 if Holons raised.

    Broken promises (`InvariantBroken` and its kin) are no `Exception`, so only catching the root catches them all.
    """
    chosen = Settings(debug=bool(os.environ.get("HOLONS_DEBUG")))
    try:
        app(args=None if arguments is None else list(arguments), prog_name="holons", obj=chosen)
    except HolonsError as error:
        if chosen.debug:
            raise
        Console(stderr=True).print(describe(error), soft_wrap=True)
        raise SystemExit(1) from error


def describe(error: HolonsError) -> Text:
    """What a person should see of `error`: the message in red, then its cause and its hint."""
    story, _, hint = str(error).partition("\n  hint: ")
    text = Text.assemble(("error: ", "bold red"), (story, "red"))
    if error.__cause__ is not None:
        text.append(f"\n  cause: {type(error.__cause__).__name__}: {error.__cause__}")
    if hint:
        text.append(f"\n  hint: {hint}", "yellow")
    return text
