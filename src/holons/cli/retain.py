"""`holons retain`: for how long a site keeps inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from holons.cli.terminal import Terminal
from holons.engines.directory_site import DirectorySite
from holons.errors import BadInput
from holons.windows import Duration
from holons.windows.duration import duration_text

_FOREVER = "forever"


def main(directory: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Sets what is asked for, and shows what is set."""
    if not directory.is_dir():
        raise BadInput(
            f"there is no directory {directory}", hint="name the site: the directory that runs were given as --log"
        )
    retention = DirectorySite(directory).retention()
    for rules, keep in ((inputs, retention.keep_input), (outputs, retention.keep_output)):
        for rule in rules:
            _keep(rule, keep)
    console = Terminal()
    kept = [("input", name, us) for name, us in retention.inputs().items()]
    kept += [("output of job", name, us) for name, us in retention.outputs().items()]
    for what, name, kept_us in kept:
        console.print(Text(f"{what} {name}: {duration_text(kept_us)}"), soft_wrap=True)
    for name in retention.inputs():
        for consumer, positions in retention.consumed(name).items():
            console.print(
                Text(f"input {name} is read by {consumer}, from {', '.join(map(str, positions))} on"), soft_wrap=True
            )
    if not kept:
        console.print("All inputs and outputs are kept for ever.")


def _keep(rule: str, keep: Callable[[str, Duration | None], None]) -> None:
    name, equals, duration = rule.rpartition("=")
    if not equals or not name:
        raise BadInput(f"{rule!r} says not how long", hint="write NAME=TIME, such as bids=7d or bids=forever")
    keep(name, None if duration == _FOREVER else duration)
