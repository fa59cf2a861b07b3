"""What other distributions add to the command line."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
import typer

from holons.cli.extensions import GROUP, add_commands
from holons.errors import MissingExtra

BENCH = EntryPoint("bench", "holons_bench.commands:bench", GROUP)
DEMO = EntryPoint("demo", "holons_bench.commands:demo", GROUP)


def app_with(*installed: EntryPoint) -> typer.Typer:
    app = typer.Typer()
    add_commands(app, installed)
    return app


def names(app: typer.Typer) -> list[str | None]:
    return [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]


def test_holons_bench_adds_its_commands():
    from holons_bench import commands

    app = app_with(BENCH, DEMO)
    assert [command.callback for command in app.registered_commands] == [commands.demo]
    assert [group.typer_instance for group in app.registered_groups] == [commands.bench]


@pytest.mark.parametrize(
    "arguments", [["demo"], ["demo", "--nodes", "3"], ["bench", "kernels", "--json", "-"], ["bench", "-h"]]
)
def test_without_it_they_say_how_to_install_it(arguments: list[str]):
    with pytest.raises(MissingExtra, match=r"`holons (demo|bench)` comes with holons-bench.*\n.*pip install ./bench"):
        app_with()(arguments)


def test_one_may_be_installed_without_the_other():
    assert sorted(map(str, names(app_with(DEMO)))) == ["bench", "demo"]


def test_commands_are_added_once():
    app = app_with(BENCH, DEMO)
    add_commands(app, [BENCH, DEMO])
    assert sorted(map(str, names(app))) == ["bench", "demo"]


def test_a_command_of_yet_another_distribution_is_added():
    version = EntryPoint("release", "holons.cli.app:version", GROUP)
    assert "release" in names(app_with(BENCH, DEMO, version))
