"""What `import holons` gives: every type that it hands out, documented, and seen by type checkers."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import pytest

import holons as h

ROOT = Path(__file__).parents[2]
NAMES = h.__all__

INTERNAL = {
    "AlignedSpec": "which windows a kind of window is made of",
    "CellTable": "how sets and the like keep what they hold",
    "Cut": "where a version of a job takes over from the one before",
    "Declared": "what all state has in common: h.WCRDT, h.WLocal or h.Local",
    "Layout": "what the runtime knows about a program",
    "Masked": "rows of a product's field",
    "PlanNode": "a step of a plan",
    "Origin": "where rows come from: partition and offset",
    "Outputs": "what results read",
    "RecordHeader": "what a stored record says of itself",
    "Records": "what a run stores to go on from",
    "Running": "what a node says that it runs",
    "Scope": "what bound state talks to",
    "PartitionRun": "what runs a partition of a job",
    "SharedState": "what nodes replicate of a job",
    "StitchedSpec": "what sessions are",
    "WindowedHandle": "what h.WCRDT and h.WLocal have in common",
    "Work": "what the thread of a run does",
}
"""Classes that public signatures mention, and that nobody needs to name."""


def names_in(annotation: str) -> Iterator[str]:
    """Every name in an annotation, also in quoted parts of it."""
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def classes_in(value: object, names: dict[str, object], within: tuple[str, ...] = ()) -> Iterator[type]:
    """The classes of which an annotation, an alias or a part of one is made."""
    if isinstance(value, typing.ForwardRef):
        value = value.__forward_arg__
    if isinstance(value, str):
        for name in names_in(value):
            found = names.get(name) or ours().get(name)
            if name not in within and not isinstance(found, str):
                yield from classes_in(found, names, (*within, name))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from classes_in(part, names, within)
    elif typing.get_origin(value) is not typing.Literal and typing.get_args(value):
        yield from classes_in([typing.get_origin(value), *typing.get_args(value)], names, within)
    elif isinstance(value, type):
        yield value


@cache
def ours() -> dict[str, type]:
    """All of our classes that are loaded, for names that only type checkers import."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "holons"]
    return {name: kind for module in modules for name, kind in vars(module).items() if isinstance(kind, type)}


def public_functions(kind: type) -> Iterator[tuple[str, object]]:
    """The functions behind the public members of a class, inherited ones too."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if base.__module__.startswith("holons") and (not name.startswith("_") or name == "__getitem__"):
                yield (
                    name,
                    inspect.unwrap(
                        member.fget
                        if isinstance(member, property)
                        else member.func
                        if isinstance(member, cached_property)
                        else getattr(member, "__func__", member)
                    ),
                )


def handed_out(name: str) -> Iterator[tuple[str, type]]:
    """Our classes in the public signatures and fields of an exported name."""
    thing = getattr(h, name)
    functions = [(name, thing)] if inspect.isfunction(thing) else []
    if isinstance(thing, type):
        functions += [(f"{name}.{member}", function) for member, function in public_functions(thing)]
        if "__init__" in vars(thing) and not dataclasses.is_dataclass(thing) and name not in ("Run",):
            functions.append((name, thing.__init__))
        if dataclasses.is_dataclass(thing):
            known = vars(sys.modules[thing.__module__])
            for field in dataclasses.fields(thing):
                for kind in classes_in(field.type, known) if not field.name.startswith("_") else ():
                    yield f"{name}.{field.name}", kind
    for where, function in functions:
        if inspect.isfunction(function):
            for annotation in function.__annotations__.values():
                for kind in classes_in(annotation, vars(sys.modules[function.__module__])):
                    yield where, kind


@pytest.mark.parametrize("name", NAMES)
def test_every_type_that_is_handed_out_can_be_imported(name):
    for where, kind in handed_out(name):
        if kind.__module__.startswith("holons") and kind.__name__ not in INTERNAL:
            assert getattr(h, kind.__name__, None) is kind, f"{where} has a {kind.__module__}.{kind.__name__}"


def test_what_is_handed_out_is_found():
    assert {kind for _, kind in handed_out("source")} >= {h.Stream}
    assert {kind for _, kind in handed_out("Windowed")} >= {h.Completed, h.Grouped, h.Measure, h.WindowSpec}
    assert {kind for _, kind in handed_out("run")} >= {h.Run, h.Job, h.Mark, h.Settings}
    assert {kind for _, kind in handed_out("Aggregate")} >= {h.Groups, h.Rows}


def test_every_name_is_documented():
    page = (ROOT / "docs" / "api.md").read_text()
    listed = re.findall(r"`h\.(\w+)`", page.partition("## Pipelines")[2])
    assert sorted(listed, key=NAMES.index) == [name for name in NAMES if name in listed] == NAMES
    for name in NAMES:
        assert inspect.getdoc(getattr(h, name)), f"h.{name} has no docstring"


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module that touches every name, and every public member of every class, as a user's would."""
    lines = ["import holons as h", ""]
    for name in NAMES:
        thing = getattr(h, name)
        lines.append(f"reveal_type(h.{name})")
        members = [member for member in dir(thing) if not member.startswith("_")] if isinstance(thing, type) else []
        if members:
            lines.append(f"def use_{name}(it: h.{name}) -> list[object]:")
            lines.append(f"    return [{', '.join(f'it.{member}' for member in members)}]")
    path = tmp_path_factory.mktemp("usage") / "usage.py"
    path.write_text("\n".join(lines) + "\n")
    return path


def check_types(revealed: list[str]) -> None:
    assert len(revealed) == len(NAMES)
    vague = [line for line in revealed if re.search(r'is "(Any|Unknown|object)"|-> (Any|Unknown)"', line)]
    assert not vague


def test_mypy_sees_every_name_with_its_type(usage):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-pretty",
        "--no-error-summary",
        "--config-file",
        "pyproject.toml",
        usage,
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = found.stdout.splitlines()
    assert [line for line in lines if ": error:" in line] == []
    check_types([line for line in lines if "Revealed type is" in line])


def test_pyright_sees_every_name_with_its_type(usage):
    (usage.parent / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", sys.executable]
    found = subprocess.run([*command, "--project", usage.parent], cwd=usage.parent, capture_output=True, text=True)
    told = json.loads(found.stdout)["generalDiagnostics"]
    assert [one["message"] for one in told if one["severity"] == "error"] == []
    check_types([one["message"] for one in told if one["message"].startswith("Type of")])
