"""Commands that other distributions add to `holons`: entry points of the group `holons.commands`.

`holons-bench` adds `demo` and `bench`. Where it is not installed, both say how to install it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

import typer

from holons.errors import MissingExtra

GROUP = "holons.commands"
BENCH_COMMANDS = ("demo", "bench")
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def add_commands(app: typer.Typer, installed: Iterable[EntryPoint] | None = None) -> None:
    """Adds each installed command that `app` lacks, and for each missing one a command that says how to install it."""
    present = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    points = {point.name: point for point in (entry_points(group=GROUP) if installed is None else installed)}
    for name in dict.fromkeys((*BENCH_COMMANDS, *sorted(points))):
        if name in present:
            continue
        if name not in points:
            app.command(name, context_settings=_ANYTHING)(_missing(name))
            continue
        command = points[name].load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _missing(name: str) -> Callable[[], None]:
    def command() -> None:
        raise MissingExtra(
            f"`holons {name}` comes with holons-bench, which is not installed",
            hint="run `pip install ./bench` in a clone of Holons, or `make setup`, which installs everything",
        )

    command.__doc__ = "Not installed: comes with holons-bench."
    return command
