"""`holons why`: which rows made a window's value."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holons.algebra import Keyed
from holons.cli.jobs import load_job
from holons.cli.log import StreamPlace, find, places, plain
from holons.cli.records import write_records
from holons.cli.terminal import Terminal
from holons.engines.directory_site import DirectorySite
from holons.engines.why import Contribution, EmittedRow, Explanation, SealedByNodes, why
from holons.errors import BadInput
from holons.node import partitions_of, sync_stream
from holons.program import Job
from holons.streams import JournaledLog, ReadableLog
from holons.visible import visible
from holons.windows import Window, instant, instant_text

_READER = "holons-why#1"  # costs nothing: it never writes
_VALUE_CHARACTERS = 96
_ROWS_SHOWN = 20
_VERDICTS = {
    "agrees": "[green]agrees[/]",
    "differs": "[bold red]differs[/]",
    "trimmed": "[dim]trimmed[/]",
    "not sealed": "[dim]not yet[/]",
    None: "",
}


def main(text: str, window: str, root: Path, *, channel: str | None, key: str | None, json_file: Path | None) -> bool:
    """Explains a window; False if nodes have sealed something else."""
    job, start = load_job(text), parse_start(window)
    with ExitStack() as opened:
        logs, site = _inputs(job, root, opened)
        sealed = _sealed(job, len(partitions_of(job, logs.__getitem__)), site, opened)
        wanted: int | str | None = int(key) if key is not None and key.lstrip("-").isdigit() else key
        explanations = why(job, logs, start, channel=channel, key=wanted, sealed=sealed)
    if json_file is not None:
        write_records([record(explanation) for explanation in explanations], json_file)
    else:
        console = Terminal()
        for explanation in explanations:
            console.print(_account(explanation))
    return not any(part.sealed == "differs" for explanation in explanations for part in explanation.contributions)


def parse_start(text: str) -> int:
    """Microseconds, or a time as ISO 8601 writes it; without a zone it is UTC."""
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        return instant(datetime.datetime.fromisoformat(text))
    except ValueError:
        raise BadInput(f"{text!r} is no moment", hint="whole microseconds since 1970, or 2026-07-01T12:00:00") from None


def _inputs(job: Job, root: Path, opened: ExitStack) -> tuple[dict[str, ReadableLog], DirectorySite]:
    """The logs that the job reads, wherever below `root` they are, and the site of the first of them."""
    logs: dict[str, ReadableLog] = {}
    sites: list[DirectorySite] = []
    for given in job.inputs:
        place = _place(root, given.stream)
        site = DirectorySite.around(place.folder)
        sites.append(site)
        partitions = place.folder.partitions(place.stream)
        if not partitions:
            raise BadInput(
                f"{place.label} holds no rows", hint=f"--log names the directory with {given.stream!r} in it"
            )
        log, journal = place.folder.open(place.stream, partitions, _READER), site.journal(given.stream)
        opened.callback(log.close)
        logs[given.stream] = log if journal is None else JournaledLog(log, journal)
    return logs, sites[0]


def _place(root: Path, stream: str) -> StreamPlace:
    """Returns where an input is: the only one of that name, or else any stream of that name."""
    inputs = [
        place
        for place in places(root)
        if place.stream == stream and DirectorySite.around(place.folder).holds_inputs(place.folder)
    ]
    return inputs[0] if len(inputs) == 1 else find(root, stream)


def _sealed(job: Job, partitions: int, site: DirectorySite, opened: ExitStack) -> SealedByNodes | None:
    """What the job's nodes have sealed; None if no node ever ran there."""
    jobs = site.jobs()
    same = [version for version in jobs.versions.values() if version.digest == job.digest]
    ran = max(same, key=lambda version: version.generation, default=jobs.current(job.name))
    name = job.name if ran is None else ran.id
    if sync_stream(name) not in site.shared_streams():
        return None
    sync = opened.enter_context(site.shared(sync_stream(name), _READER))
    return SealedByNodes.read(job, partitions, sync, site.store(_READER), name)


# --- telling ----------------------------------------------------------------------------------------------------------


def record(explanation: Explanation) -> dict[str, Any]:
    """An explanation for machines."""
    return {
        "start": explanation.window.start,
        "end": explanation.window.end,
        "key": explanation.window.key,
        "channels": list(explanation.channels),
        "values": {name: plain(value) for name, value in explanation.values.items()},
        "stage": explanation.stage,
        "contributions": [_part_record(explanation, part) for part in explanation.contributions],
        "outputs": [
            {"channel": channel, "partition": output.partition, "ordinal": output.ordinal, "row": plain(output.row)}
            for channel, rows in explanation.outputs.items()
            for output in rows
        ],
    }


def _part_record(explanation: Explanation, part: Contribution) -> dict[str, Any]:
    record = {
        "handle": part.handle,
        "partition": part.partition,
        "rows": part.rows,
        "first": part.first,
        "last": part.last,
        "value": plain(part.value),
        "sealed": part.sealed,
    }
    if explanation.stage:
        record |= {"first_window": _window_record(part.first_window), "last_window": _window_record(part.last_window)}
    return record


def _window_record(window: Window | None) -> dict[str, Any] | None:
    return None if window is None else {"start": window.start, "end": window.end, "key": window.key}


def _account(explanation: Explanation) -> Group:
    name = explanation.text or str(explanation.window)
    title = Text.assemble(("Window ", "bold"), name, f", starts at {explanation.window.start}")
    parts: list[Table | Text] = []
    for handle in dict.fromkeys(part.handle for part in explanation.contributions):
        parts += Text(), _heading(explanation, handle), _contributions(explanation, handle)
    outputs: list[Table | Text] = [_rows(channel, rows) for channel, rows in explanation.outputs.items() if rows]
    return Group(title, *parts, Text(), *(outputs or [_nothing(explanation)]), _verdict(explanation), "")


def _heading(explanation: Explanation, handle: str) -> Text:
    """The handle, and where its rows come from: windows are shown here, as they are too long for a column."""
    if not explanation.stage:
        return Text.assemble((handle, "bold"), ", from rows of the input")
    heading = Text.assemble((handle, "bold"), f", from windows of stage {explanation.stage - 1}")
    parts = [part for part in explanation.contributions if part.handle == handle]
    first = min((part.first_window for part in parts if part.first_window is not None), default=None)
    last = max((part.last_window for part in parts if part.last_window is not None), default=None)
    if first is not None:
        heading.append(f"\n  first {first}\n  last  {last}" if first != last else f"\n  only {first}")
    return heading


def _contributions(explanation: Explanation, handle: str) -> Table:
    """A line for each partition. Only the values give way where the screen is narrow: the rest keeps its width."""
    parts = [part for part in explanation.contributions if part.handle == handle]
    asked = any(part.sealed for part in explanation.contributions)
    table = Table()
    for column in ("partition", "rows", *(() if explanation.stage else ("offsets",))):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("contribution")
    if asked:
        table.add_column("sealed", no_wrap=True)
    for part in parts:
        offsets = [] if explanation.stage else ["" if part.first is None else f"{part.first} to {part.last}"]
        value = Text(_short(part.value), no_wrap=True, overflow="ellipsis") if part.rows else Text("nothing", "dim")
        verdict = [_VERDICTS[part.sealed]] if asked else []
        table.add_row(str(part.partition), f"{part.rows:,}", *offsets, value, *verdict)
    if handle in explanation.values:
        table.add_section()
        offsets = [] if explanation.stage else [""]
        rows = f"{sum(part.rows for part in parts):,}"
        table.add_row("all", rows, *offsets, Text(_short(explanation.values[handle])), style="bold")
    return table


def _nothing(explanation: Explanation) -> Text:
    return Text(
        f"It gives nothing in {', '.join(explanation.channels)}."
        if explanation.channels
        else "Nothing is put out for it."
    )


def _rows(channel: str, rows: Sequence[EmittedRow]) -> Table:
    names = list(dict.fromkeys(name for output in rows for name in output.row))
    table = Table(title=f"What it gives in {channel}", title_justify="left", title_style="default")
    for column in ("partition", "ordinal", *names):
        own = column in ("partition", "ordinal")
        table.add_column(escape(visible(column)), justify="right" if own else "left", no_wrap=own)
    for partition, ordinal, row in rows[:_ROWS_SHOWN]:
        table.add_row(str(partition), str(ordinal), *(Text(_short(row.get(name))) for name in names))
    if len(rows) > _ROWS_SHOWN:
        table.caption = f"and {len(rows) - _ROWS_SHOWN:,} more"
    return table


def _verdict(explanation: Explanation) -> Text:
    verdicts = {part.sealed for part in explanation.contributions}
    if "differs" in verdicts:
        return Text("Nodes have sealed something else: the program, or its input, is not what they ran.", "bold red")
    if verdicts == {None}:
        return Text("No node has sealed anything here to compare with.", "dim")
    if verdicts == {"agrees"}:
        return Text("Agrees with what nodes sealed.", "green")
    missing = "already trimmed" if "trimmed" in verdicts else "not sealed yet"
    return Text(f"What nodes sealed is {missing}, all or in part; the rest agrees.", "dim")


def _short(value: object) -> str:
    """A value on one line: columns as lists, moments in UTC as windows tell theirs, others with their zone."""
    if isinstance(value, Keyed):
        value = value.to_dict()
    if isinstance(value, dict):
        value = {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in value.items()}
    if isinstance(value, datetime.datetime) and value.utcoffset() == datetime.timedelta(0):
        value = instant_text(instant(value))
    text = visible(str(value))
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"
