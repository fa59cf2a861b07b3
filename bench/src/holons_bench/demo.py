"""`holons demo`: highest bids over a live stream, with a node killed half way, and an account of what that did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

import holons as h
from holons.engines.status import NodeStatus
from holons.nexmark import PacedBids, highest_bid, highest_bids
from holons_bench import live, plots
from holons_bench.chronicle import Chronicle, Happened, short, takeovers
from holons_bench.latencies import UNITS, figures, limit_s
from holons_bench.records import Record
from holons_bench.report import Report, plotly

_PERIOD_US = 20_000
_WARM_S = 2.0
_ROWS_SHOWN = 5
_PLAIN_S = 5.0


@dataclass(frozen=True)
class DemoOptions:
    """The options of `holons demo`."""

    nodes: int = 3
    partitions: int = 4
    rate: int = 150_000
    seconds: int = 20
    spark: bool = True
    report: Path | None = Path("report.html")

    @property
    def where(self) -> str:
        return "in Spark tasks" if self.spark else "in processes of their own"

    @property
    def producers(self) -> int:
        return min(2, self.partitions)

    @property
    def kill_s(self) -> float:
        """Half way, in the middle of a window."""
        return self.seconds // 2 + 0.4


def main(options: DemoOptions, console: Console) -> tuple[bool, list[Record]]:
    """Runs the demo: whether every window was right, and flat records of what was measured."""
    if options.report is not None:
        plotly("offline")  # says now what would be missing in the end
    load = PacedBids(options.rate, options.partitions, options.seconds, period_us=_PERIOD_US)
    job = h.job(highest_bid(load.window_us), "bids", time="date_time")
    console.print(_introduction(options))
    setting = live.Setting(options.nodes, options.spark, options.producers)
    if options.spark:
        console.print("Starting Spark", style="dim")
        live.start_spark(setting)  # now, since Java writes to the terminal whatever we do
    faults = [live.NodeFault(options.kill_s, None, "kill")] if options.nodes > 1 else []
    with _shown(options, console) as observe:
        run = live.run(job, load, setting, faults, observe)
    expected = highest_bids(load)[: load.windows]
    account = Account(options, run, expected)
    account.show(console)
    if options.report is not None:
        account.report().write(options.report)
        console.print(f"\nThe same with figures: [bold]{options.report}[/]")
    return account.right == len(expected), account.records()


def _introduction(options: DemoOptions) -> str:
    return (
        "\n[bold]Holons demo[/]: the highest bid of every second, "
        f"over {options.partitions} partitions of a Nexmark stream.\n"
        f"{options.producers} producers write {options.rate:,} bids a second for {options.seconds} s; "
        f"{options.nodes} nodes {options.where} read them. "
        + ("Half way one node is killed.\n" if options.nodes > 1 else "\n")
    )


# --- while it runs ----------------------------------------------------------------------------------------------------


@contextmanager
def _shown(options: DemoOptions, console: Console) -> Iterator[Callable[[live.Now], None]]:
    """Shows a table that is kept up to date on a terminal, and elsewhere a line every few seconds."""
    if not console.is_terminal:
        yield _Lines(options, console)
        return
    starting = Spinner("dots", "Starting nodes and producers")
    with Live(starting, console=console, refresh_per_second=8, transient=True) as shown:
        yield lambda now: shown.update(table(now, options))


class _Lines:
    """Prints plain lines where there is no terminal."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._next_s = 0.0
        self._shown = 0

    def __call__(self, now: live.Now) -> None:
        for event in now.happened[self._shown :]:
            self._console.print(f"{event.at_s:5.1f} s  {short(event.node)} (process {event.pid}) {event.what}")
        self._shown = len(now.happened)
        if now.at_s >= self._next_s:
            self._next_s = now.at_s // _PLAIN_S * _PLAIN_S + _PLAIN_S
            self._console.print(f"{max(now.at_s, 0.0):5.1f} s  {headline(now, self._options)}", soft_wrap=True)


def headline(now: live.Now, options: DemoOptions) -> str:
    """Returns a line that says how the whole job goes."""
    late = "-" if now.late_s is None else _time(now.late_s)
    return (
        f"{now.status.rows_per_s:,.0f} bids/s, {now.status.rows_read:,} read, "
        f"{now.windows} of {options.seconds} windows, the last after {late}"
    )


def table(now: live.Now, options: DemoOptions) -> RenderableType:
    """Returns a table of what the nodes do, the killed ones included."""
    title = Text.assemble(("Highest bids ", "bold"), f"{max(now.at_s, 0.0):4.1f} s   {headline(now, options)}")
    shown = Table()
    for name in ("node", "process", "partitions", "bids read", "waiting", "watermark", "state"):
        shown.add_column(name, justify="right" if name in ("bids read", "waiting", "watermark") else "left")
    killed = {event.node: event for event in now.happened if event.what == "killed"}
    nodes = {node.name: node for node in now.status.nodes}
    for name in sorted({*nodes, *killed}):
        if name in killed:
            death = killed[name]
            cells = (short(name), str(death.pid), "", "", "", "", f"killed at {death.at_s:.1f} s")
            shown.add_row(*cells, style="red")
        else:
            new = name not in now.first
            shown.add_row(*_cells(nodes[name]), "new" if new else "runs", style="green" if new else "")
    return Group(title, shown)


def _cells(node: NodeStatus) -> tuple[str, ...]:
    watermark = node.watermark or 0
    return (
        node.label,
        str(node.process),
        " ".join(map(str, node.partitions)) or "-",
        f"{node.rows_read:,}",
        f"{node.lag:,}",
        f"{watermark / 1e6:.2f} s" if 0 < watermark < 1 << 60 else "-",
    )


# --- afterwards -------------------------------------------------------------------------------------------------------


class Account:
    """What a run did, in words and figures."""

    def __init__(self, options: DemoOptions, run: Chronicle, expected: list[dict[str, int]]) -> None:
        self.options = options
        self.run = run
        self.expected = len(expected)
        self.right = sum(row == wanted for row, wanted in zip(run.rows, expected, strict=False))
        self.killed = next((event for event in run.happened if event.what == "killed"), None)
        before = run.due_s < (self.killed.at_s if self.killed else np.inf)
        calm = before & run.since(_WARM_S)
        self.usual = run.late_s[calm if calm.any() else before]
        """Latencies before anything happened, without the first windows."""
        faults_s = [self.killed.at_s] if self.killed else []
        self.figures = figures(run.due_s, run.readable_s, faults_s, self.usual if faults_s else None)

    @property
    def verdict(self) -> str:
        if self.right == self.expected:
            return f"Checked: all {self.expected} windows are what a sequential computation over all bids gives."
        return f"WRONG: {self.expected - self.right} of {self.expected} windows differ from what they should be."

    def account(self) -> list[str]:
        """Returns sentences that say what happened."""
        usual = _time(float(np.median(self.usual)))
        calm = f"A window's result was there {usual} after the window's end (median)"
        if self.killed is None:
            return [f"{calm}, {_time(self.figures['max'])} at worst."]
        return [
            f"{calm}, as long as nothing happened.",
            f"At {self.killed.at_s:.1f} s {short(self.killed.node)} (process {self.killed.pid}) was killed by SIGKILL.",
            self._taken_over(self.killed),
            self._cost(self.killed),
            self._replacement(self.killed),
        ]

    def _taken_over(self, killed: Happened) -> str:
        resumed = takeovers(self.run.spells(), killed)
        if not resumed:
            return "It ran no partition at that moment."
        parts = [f"partition {each.partition} by {short(each.node)} after {each.after_s:.1f} s" for each in resumed]
        timeout_s = live.Setting(1).settings.failure_timeout_s
        return (
            f"What it ran was taken over from its last checkpoint: {', '.join(parts)}. "
            f"(A node counts as dead after {timeout_s:g} s without a sign of life.)"
        )

    def _cost(self, killed: Happened) -> str:
        run, limit = self.run, limit_s(self.usual)
        hit = (run.late_s > limit) & (run.readable_s > killed.at_s)
        if not hit.any():
            return "No window came out late."
        many = "1 window" if hit.sum() == 1 else f"{hit.sum()} windows"
        return (
            f"That made {many} late, the worst by {_time(float(run.late_s[hit].max()))}; {self.figures['recovery']:.1f} s "
            "after the kill latency was back to normal. No bid was lost or counted twice."
        )

    def _replacement(self, killed: Happened) -> str:
        up = {node: at_s for node, at_s in self.run.came_up_s().items() if at_s > killed.at_s}
        who = "Spark ran the task again" if self.options.spark else "The driver started another process"
        if not up:
            return f"{who}, but it was not up before the end."
        node = min(up, key=lambda name: up[name])
        took = sorted({spell.partition for spell in self.run.spells() if spell.node == node})
        ran = f" and took {_partitions(took)}" if took else ""
        return f"{who}: {short(node)} was up {up[node] - killed.at_s:.1f} s after the kill{ran}."

    def show(self, console: Console) -> None:
        shown = Table(title=f"The last {_ROWS_SHOWN} windows", title_justify="left")
        columns, rows = self._windows(self.run.rows[-_ROWS_SHOWN:])
        for name in columns:
            shown.add_column(name, justify="right")
        for row in rows:
            shown.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
        console.print(shown)
        console.print("\n[bold]What happened[/]")
        for sentence in self.account():
            console.print(f"  {sentence}", soft_wrap=not console.is_terminal)
        console.print(f"\n[{'green' if self.right == self.expected else 'bold red'}]{self.verdict}[/]")

    def _windows(self, rows: list[dict[str, int]]) -> tuple[list[str], list[list[str | int]]]:
        late_s = dict(zip((row["window"] for row in self.run.rows), self.run.late_s.tolist(), strict=True))
        return ["window", "price", "auction", "bidder", "bid at", "latency"], [
            [
                f"{row['window'] // 1_000_000} to {row['window'] // 1_000_000 + 1} s",
                row["price"],
                str(row["auction"]),
                str(row["bidder"]),
                f"{row['date_time'] / 1e6:.6f} s",
                _time(late_s[row["window"]]),
            ]
            for row in rows
        ]

    def report(self) -> Report:
        """Returns the page that is written to `report.html`."""
        options, run = self.options, self.run
        page = Report("Highest bids, and a node killed half way")
        page.text(
            f"{options.producers} producers wrote {options.rate:,} Nexmark bids a second into {options.partitions} "
            f"partitions, for {options.seconds} s; {options.nodes} nodes {options.where} computed the highest bid of each "
            "second over all partitions. Every node folds its own partitions and sends only what it has sealed; the result "
            "of a window is emitted once, when all partitions have sealed it."
        )
        facts = [
            (f"{options.rate * options.seconds:,}", "bids"),
            (_time(float(np.median(self.usual))), "median latency before the kill"),
            (_time(self.figures["max"]), "worst latency"),
        ]
        if self.killed is not None:
            facts.append((f"{self.figures['recovery']:.1f} s", "until latency was normal again"))
        page.facts([*facts, (f"{self.right} of {self.expected}", "windows right")])
        page.verdict(self.verdict, good=self.right == self.expected)
        page.heading("What happened")
        page.text(*self.account())
        for figure in (plots.latency(run), plots.owners(run), plots.throughput(run)):
            page.figure(figure)
        page.heading("All windows")
        page.table(*self._windows(run.rows))
        return page

    def records(self) -> list[Record]:
        """Returns the figures as records."""
        case = f"highest bid, {self.options.nodes} nodes {self.options.where}, {self.options.rate:,} bids/s"
        values = {name: (value, UNITS.get(name, "s")) for name, value in self.figures.items()}
        values["windows_right"] = (float(self.right), "windows")
        if self.killed is not None:
            for takeover in takeovers(self.run.spells(), self.killed):
                values[f"takeover_{takeover.partition}"] = (takeover.after_s, "s")
        return [
            Record(bench="demo", case=case, system="holons", metric=metric, value=value, unit=unit)
            for metric, (value, unit) in values.items()
        ]


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.1f} ms"
