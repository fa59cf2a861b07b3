"""The `holons` command: what it offers, and how errors reach a person.

Every command is a thin shell: it reads its options and calls the room that does the work, which is imported only
then, so that `holons --help` does not wait for Spark.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from holons.cli.extensions import add_commands
from holons.cli.nexmark import nexmark
from holons.cli.records import JsonFile, write_records
from holons.cli.terminal import Terminal, guard_terminal
from holons.errors import DescribedError

app = typer.Typer(
    name="holons",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Each command has examples of its own: [bold]holons demo --help[/bold]",
)
app.add_typer(nexmark, name="nexmark")
log = typer.Typer(no_args_is_help=True, help="Look into the streams below a directory. Nothing is ever written.")
app.add_typer(log, name="log")


@dataclass
class CommandOptions:
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

      holons demo                    [dim]# a live job on Spark, and a node killed[/dim]
      holons demo --no-spark         [dim]# without Spark: no Java needed[/dim]
      holons bench kernels --json -  [dim]# speed of the kernels, for machines[/dim]
      holons bench node              [dim]# speed of nodes over logs on disk[/dim]
      holons sim --seeds 0:100       [dim]# nodes under faults, in virtual time[/dim]
      holons log ls DIR              [dim]# the streams below a directory[/dim]
      holons nexmark run q7          [dim]# one of Nexmark's queries, on Spark[/dim]
      holons nexmark verify all      [dim]# 22 queries against DuckDB[/dim]
      holons why app.py:job 3000000  [dim]# which rows made this window's value[/dim]
      holons --debug demo            [dim]# with tracebacks[/dim]
    """
    context.ensure_object(CommandOptions).debug = debug


@app.command()
def run(
    job: Annotated[
        str, typer.Argument(help="What to run: [bold]APP.py:NAME[/bold], package.module:NAME, or nexmark:q7.")
    ],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes, each a Spark task or a process.")] = 2,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where streams and checkpoints are kept. Default: nowhere for long."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="STREAM=FILE", help="Rows for a stream: one file for each partition, or a folder."
        ),
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="On how many nodes each partition runs.")] = 1,
    store: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Checkpoints elsewhere: a path, s3://…, or [bold]memory[/bold] (the nodes')."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every channel's rows into files here.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="Of those files: parquet or jsonl.")] = "parquet",
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Put those files into folders by this time column.")
    ] = None,
    unit: Annotated[str, typer.Option(help="One folder for each year, month, day, hour or minute.")] = "hour",
    idle: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="After this long without rows a partition holds up nobody, and a quiet stream closes its windows: "
            "[bold]auto[/bold] (10 for live rows, never for history), seconds, or [bold]never[/bold].",
        ),
    ] = "auto",
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take over from an older version of the job.")] = False,
    engine: Annotated[
        str, typer.Option(help="[bold]spark[/bold]: nodes are Spark tasks; [bold]embedded[/bold]: processes, no Java.")
    ] = "spark",
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master: local\\[N], or local-cluster\\[N,cores,MB].")
    ] = None,
    durability: Annotated[
        str,
        typer.Option(
            help="What survives: the death of any [bold]process[/bold], or the machine's ([bold]disk[/bold])."
        ),
    ] = "process",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what came out here ([bold]-[/bold]: stdout).")
    ] = None,
) -> None:
    """Run a job on nodes in Spark tasks, or in processes of their own, until its inputs have ended.

    Nodes that die are replaced; what they ran is taken over at once. With
    [bold]--log[/bold] everything is kept: stop with Ctrl-C, and without --input the same
    command goes on where it was, with the same results.

    [bold]Examples[/bold]

      holons run examples/bid_share.py:job --input bids=bids.parquet
      holons run app.py:job --nodes 4 --log /var/holons --input bids=parts/
      holons run app.py:job --log /var/holons            [dim]# go on[/dim]
      holons run app.py:job --log /var/holons --upgrade  [dim]# with new code[/dim]
      holons run app.py:job --input bids=bids.csv --output out --format jsonl
      holons run app.py:job --input bids=parts/ --engine embedded  [dim]# no Spark, no Java[/dim]
    """
    from holons.cli import run as the_run

    records = the_run.main(
        the_run.RunOptions(
            job,
            nodes,
            log,
            inputs or (),
            replicas,
            store,
            output,
            format_,
            idle,
            upgrade,
            engine,
            master,
            time,
            unit,
            durability,
        )
    )
    if json_file is not None:
        write_records(records, json_file)


@app.command()
def retain(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The site: where its streams are.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="STREAM=TIME", help="Keep an input's rows so long: 12h, 7d; or forever."),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", metavar="JOB=TIME", help="The same for what a job has emitted.")
    ] = None,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Also for streams and jobs that the site has not got yet.")
    ] = False,
) -> None:
    """Say for how long inputs and outputs are kept; or show it, and who reads.

    No row goes that a submitted job or a named consumer still needs.

    [bold]Examples[/bold]

      holons retain DIR --input bids=7d --output BidShare=30d
      holons retain DIR --input bids=forever
      holons retain DIR
    """
    from holons.cli import retain as the_retain

    the_retain.main(directory, inputs or (), outputs or (), ahead=ahead)


@app.command()
def cancel(
    name: Annotated[str, typer.Argument(help="The job's name: its program's, unless h.job(..., name=) says another.")],
    log: Annotated[Path, typer.Option(metavar="DIR", help="Where its streams are.")] = Path(),
) -> None:
    """Stop a job for good, on all nodes that run it. What it put out stays; its name is free again.

    [bold]Examples[/bold]

      holons cancel BidShare --log site
    """
    import uuid

    from holons.engines.directory_site import DirectorySite
    from holons.node import cancel as stop

    version = stop(name, DirectorySite(log, durability="disk").ports(f"holons-cancel-{uuid.uuid4().hex[:8]}"))
    print(f"{version.id} is cancelled")


@app.command()
def sim(
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="APP.py:NAME, package.module:NAME, or a scenario of ours.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="17, 0:1000 (without 1000), or 3,7,20:30.")] = "0:100",
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes there are at first.")] = 3,
    replicas: Annotated[int, typer.Option(min=1, help="On how many nodes each partition runs.")] = 1,
    rows: Annotated[
        int | None, typer.Option(min=1, help="At most so many rows in a partition (24; of a file of yours, 200).")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="STREAM=FILE", help="Rows for JOB; again for each partition, or a directory."),
    ] = None,
    faults: Annotated[bool, typer.Option("--faults/--no-faults", help="Whether anything breaks.")] = True,
    kinds: Annotated[
        str, typer.Option(help="Faults with commas: crash,stall; or all; or first, as in the recorded seeds.")
    ] = "all",
    shrink: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Look for the faults that a divergence needs.")
    ] = True,
    trace: Annotated[bool, typer.Option("--trace", help="Tell everything that happened, also if all is well.")] = False,
    swarm: Annotated[
        bool,
        typer.Option("--swarm", help="Draw everything from the seed: job, nodes, settings, actors, kinds of faults."),
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="With --swarm: print which lines of the nodes were never run.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="How many processes run seeds.")] = 2,
    json_file: JsonFile = None,
) -> None:
    """Run jobs under faults in virtual time, and compare what comes out with the oracle.

    Real nodes, simulated surroundings: crashes, stalls, cut links, late and
    repeated messages, torn checkpoints. A seed decides everything, so a run
    that diverged can be seen again. Without JOB: the scenarios
    'bid share', 'highest bid', 'alert rule', 'sliding top' and 'two jobs'.

    [bold]Examples[/bold]

      holons sim --seeds 0:1000
      holons sim 'bid share' --seeds 17 --trace
      holons sim app.py:job --input bids=bids.parquet --seeds 0:200
      holons sim app.py:job --input bids=a.csv --input bids=b.csv --nodes 5 --replicas 2
      holons sim --kinds crash,split --json -
      holons sim --swarm --seeds 0:2000 --coverage
    """
    from holons.cli import sim as the_sim
    from holons.cli.seeds import parse_seeds

    numbers = parse_seeds(seeds)
    if swarm:
        from holons.cli import swarm as the_swarm

        well = the_swarm.main(
            numbers, workers=workers, shrinking=shrink, trace=trace, coverage=coverage, json_file=json_file
        )
        raise typer.Exit(code=0 if well else 1)
    wanted = the_sim.parse_kinds(kinds) if faults else ()
    chosen = the_sim.setups(job, inputs or [], rows, nodes=nodes, replicas=replicas, kinds=wanted)
    if not the_sim.main(chosen, numbers, workers=workers, shrinking=shrink, trace=trace, json_file=json_file):
        raise typer.Exit(code=1)


@app.command()
def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="APP.py:NAME, package.module:NAME, or nexmark:q7.")],
    window: Annotated[str, typer.Argument(metavar="WINDOW", help="Its start: microseconds, or 2026-07-01T12:00:00.")],
    directory: Annotated[Path, typer.Option("--log", metavar="DIR", help="Where the job's streams are.")] = Path(),
    channel: Annotated[str | None, typer.Option(help="Only windows whose rows go to this channel.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the session of this key.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Tell which partitions, offsets and contributions made a window's value.

    Runs the program once more over its input log, and notes what goes into the
    window. Then compares with what nodes have sealed, as far as that is still there.

    [bold]Examples[/bold]

      holons why app.py:job 3000000 --log DIR
      holons why app.py:job 2026-07-01T12:00:00 --log DIR --channel on_window
      holons why app.py:job 3000000 --json - | jq '.[].contributions'
    """
    from holons.cli import why as the_why

    if not the_why.main(job, window, directory, channel=channel, key=key, json_file=json_file):
        raise typer.Exit(code=1)


LogDirectory = Annotated[Path, typer.Option("--log", metavar="DIR", help="Where the streams are.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A name that `holons log ls` shows, or its last part.")]
Count = Annotated[int, typer.Option("-n", "--count", min=1, help="How many of each partition, or of each writer.")]
Partition = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
Offset = Annotated[int | None, typer.Option(min=0, help="From this offset on.")]


@log.command("ls")
def log_ls(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to look.")] = Path(),
    json_file: JsonFile = None,
) -> None:
    """List the streams below a directory: kind, partitions, rows and marks or messages, bytes, writers.

    [bold]Examples[/bold]

      holons log ls
      holons log ls /var/lib/holons --json -
    """
    from holons.cli import log as the_log

    if not the_log.ls(directory, json_file):
        raise typer.Exit(code=1)


@log.command("head")
def log_head(
    stream: Stream,
    directory: LogDirectory = Path(),
    count: Count = 10,
    partition: Partition = None,
    offset: Offset = None,
    json_file: JsonFile = None,
) -> None:
    """Show the first rows of a stream, or from an offset on; of a shared one, its messages in words.

    [bold]Examples[/bold]

      holons log head bids --log DIR
      holons log head input/bids -n 3 --partition 1 --offset 5000
      holons log head shared/control --json - | jq .message
    """
    from holons.cli import log as the_log

    where: dict[str, Any] = {"partition": partition, "offset": offset}
    the_log.show(directory, stream, count=count, **where, from_end=False, follow=False, json_file=json_file)


@log.command("tail")
def log_tail(
    stream: Stream,
    directory: LogDirectory = Path(),
    count: Count = 10,
    partition: Partition = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then go on as more comes, until Ctrl-C.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Show the last rows of a stream, and perhaps whatever follows.

    [bold]Examples[/bold]

      holons log tail bids --log DIR
      holons log tail on_window --follow
      holons log tail shared/heartbeats -n 1
    """
    from holons.cli import log as the_log

    where: dict[str, Any] = {"partition": partition, "offset": None}
    the_log.show(directory, stream, count=count, **where, from_end=True, follow=follow, json_file=json_file)


@log.command("stat")
def log_stat(
    stream: Stream,
    directory: LogDirectory = Path(),
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column with the event times: ts, or the only one of times, if left out."
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Tell of each partition where it starts and ends, how many rows and marks it has, and over which times.

    [bold]Examples[/bold]

      holons log stat bids --log DIR
      holons log stat bids --time date_time --json -
    """
    from holons.cli import log as the_log

    the_log.stat(directory, stream, time, json_file)


@app.command()
def version() -> None:
    """Print the version, and what it runs on."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"holons {importlib.metadata.version('holons')} (Python {python})")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`, with code 1 if Holons raised.

    That is an error of either kind: broken promises (`PromiseBroken`) are no `HolonsError`.
    """
    chosen = CommandOptions(debug=bool(os.environ.get("HOLONS_DEBUG")))
    add_commands(app)
    guard_terminal()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="holons", obj=chosen)
    except DescribedError as error:
        if chosen.debug:
            raise
        Terminal(stderr=True).print(describe(error), soft_wrap=True)
        raise SystemExit(1) from error


def describe(error: DescribedError) -> Text:
    """What a person should see of `error`: the message in red, then its cause and its hint."""
    story, _, hint = str(error).partition("\n  hint: ")
    text = Text.assemble(("error: ", "bold red"), (story, "red"))
    if error.__cause__ is not None:
        text.append(f"\n  cause: {type(error.__cause__).__name__}: {error.__cause__}")
    if hint:
        text.append(f"\n  hint: {hint}", "yellow")
    return text
