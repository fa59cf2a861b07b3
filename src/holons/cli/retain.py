"""`holons retain`: for how long a site keeps inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from rich.text import Text

from holons.cli.terminal import Terminal
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput
from holons.names import nearest
from holons.windows import micros
from holons.windows.duration import duration_text

_FOREVER = "forever"
_DAY_US = micros("1d")


def main(directory: Path, inputs: Sequence[str], outputs: Sequence[str], *, ahead: bool = False) -> None:
    """Sets what is asked for, and shows what is set, and who reads. With `ahead` also for what the site has not got yet."""
    if not directory.is_dir():
        raise BadInput(
            f"there is no directory {directory}", hint="name the site: the directory that runs were given as --log"
        )
    site = DirectorySite(directory)
    retention, jobs, streams = site.retention(), site.jobs(), site.streams()
    job_names = {version.name for version in jobs.versions.values()}
    known_inputs, known_jobs = {*streams, *retention.inputs()}, {*job_names, *retention.outputs()}
    wished_inputs = [_wish("stream", rule, None if ahead else known_inputs) for rule in inputs]
    wished_outputs = [_wish("job", rule, None if ahead else known_jobs) for rule in outputs]
    for name, duration in wished_inputs:  # all rules were looked at by now: all of them are set, or none
        retention.keep_input(name, duration)
    for name, duration in wished_outputs:
        retention.keep_output(name, duration)
    kept = [("input", name, us) for name, us in retention.inputs().items()]
    kept += [("output of job", name, us) for name, us in retention.outputs().items()]
    lines = [f"{what} {name}: {_text(kept_us)}" for what, name, kept_us in kept]
    lines = lines or ["All inputs and outputs are kept for ever."]
    for name in sorted({*streams, *retention.inputs()}):
        for version, _ in jobs.readers(name):
            lines.append(f"input {name} is needed by job {version.name}, from its checkpoints on")
        for consumer, positions in retention.consumed(name).items():
            lines.append(f"input {name} is read by {consumer}, from {', '.join(map(str, positions))} on")
    console = Terminal()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _wish(what: str, rule: str, known: Collection[str] | None) -> tuple[str, str | None]:
    """Returns whose rows are meant, and how long they are kept; None for ever. Raises unless that name is known."""
    name, equals, duration = rule.rpartition("=")
    if not equals or not name:
        raise BadInput(f"{rule!r} says not how long", hint="write NAME=TIME, such as bids=7d or bids=forever")
    if duration != _FOREVER:
        micros(duration)  # raises if it is none
    if known is not None and name not in known:
        near = ", ".join(nearest(name, known))
        have = f"is it {near}?" if near else f"there is {', '.join(sorted(known)) or 'none'}."
        raise BadInput(f"the site has no {what} {name!r}", hint=f"{have} For one that comes later: --ahead")
    return name, None if duration == _FOREVER else duration


def _text(kept_us: int) -> str:
    """Writes for how long something is kept: in days rather than in weeks."""
    return f"{kept_us // _DAY_US}d" if kept_us and kept_us % _DAY_US == 0 else duration_text(kept_us)
