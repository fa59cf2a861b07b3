"""Style that no linter knows: lengths, names, who touches time, what is never unpickled.

Each rule is a function from a file to its offences, tried first on a planted offence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holons import windows
from holons.windows import WindowSpec

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holons"
BENCH = ROOT / "bench" / "src" / "holons_bench"

LINES_MAX = 450
LINES_OF_A_TEST_MAX = 600
CLASS_LINES_MAX = 300
ATTRIBUTES_MAX = 20
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"})
TIMEKEEPERS = ("src/holons/clock.py", "bench/src/holons_bench/", "src/holons/cli/")
UNPICKLERS: tuple[str, ...] = (
    "src/holons/engines/orders.py",
    "src/holons/engines/embedded/processes.py",
)  # files that may unpickle, each for a reason that its docstring gives
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")

WINDOW_KINDS = {name for name, kind in vars(windows).items() if isinstance(kind, type) and issubclass(kind, WindowSpec)}
WINDOW_KINDS -= {"WindowSpec"}  # whether something is a window at all may be asked

Rule = Callable[[str, str], list[str]]


def too_long(path: str, text: str) -> list[str]:
    lines, most = text.count("\n"), LINES_OF_A_TEST_MAX if path.startswith("tests/") else LINES_MAX
    return [f"{path}: {lines} lines, at most {most}: make it two files"] if lines > most else []


def large_class(path: str, text: str) -> list[str]:
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    sizes = [
        (node, count, most, what)
        for node in classes
        for count, most, what in (
            ((node.end_lineno or 0) - node.lineno + 1, CLASS_LINES_MAX, "lines"),
            (len(attributes_of(node)), ATTRIBUTES_MAX, "attributes"),
        )
    ]
    return [
        f"{path}:{node.lineno}: {node.name} has {count} {what}, at most {most}: make it two classes"
        for node, count, most, what in sizes
        if count > most
    ]


def attributes_of(node: ast.ClassDef) -> set[str]:
    """The attributes that a class declares, or that its methods assign to `self`. Members of an enumeration are values."""
    if any(ast.unparse(kind).endswith("Enum") for kind in node.bases):
        return set()
    declared = {
        target.id
        for statement in node.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    }
    assigned = {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
    }
    return declared | assigned


def vague_name(path: str, text: str) -> list[str]:
    parts = Path(path).with_suffix("").parts
    words = {word for part in parts for word in part.split("_")}
    return [f"{path}: '{word}' says nothing: name it for its one reason" for word in sorted(words & VAGUE_NAMES)]


def unfinished(path: str, text: str) -> list[str]:
    return [
        f"{path}:{number}: finish it, or leave it out"
        for number, line in enumerate(text.splitlines(), start=1)
        if UNFINISHED.search(line)
    ]


def touches_time(path: str, text: str) -> list[str]:
    if path.startswith(TIMEKEEPERS):
        return []
    return [
        f"{path}:{line}: '{module}' outside clock.py: take a Clock"
        for module, line in imported_modules(text)
        if module in ("time", "random")
    ]


def unpickles(path: str, text: str) -> list[str]:
    if path in UNPICKLERS:
        return []
    readers = {"load", "loads", "Unpickler"}
    picklers = {"pickle", "cloudpickle", "_pickle", "dill"}
    return [
        f"{path}:{line}: nothing is unpickled: use holons.codec"
        for module, name, line in names_used(text)
        if module.split(".")[-1] in picklers and name in readers
    ]


def asks_for_the_class_of_windows(path: str, text: str) -> list[str]:
    if path.startswith("src/holons/windows/"):
        return []
    return [
        f"{path}:{node.lineno}: ask what the windows can do (`known_ahead`, `keyed`, ...), not for their class"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and WINDOW_KINDS & set(re.findall(r"\w+", ast.unparse(node.args[1])))
    ]


def imported_modules(text: str) -> Iterator[tuple[str, int]]:
    """Every module that the code imports from outside its own package, by its first name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0], node.lineno


def names_used(text: str) -> Iterator[tuple[str, str, int]]:
    """Every `module.name` that the code mentions or imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            yield ast.unparse(node.value), node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name, node.lineno) for alias in node.names)


def files(*folders: Path, suffix: str = ".py") -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob(f"*{suffix}"))


def offences(rule: Rule, paths: list[Path]) -> list[str]:
    return [
        offence
        for path in paths
        for offence in rule(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]


CODE = [SOURCE, BENCH, ROOT / "tests"]


@pytest.mark.parametrize(
    ("rule", "folders"),
    [
        (too_long, CODE),
        (large_class, [SOURCE, BENCH]),
        (vague_name, CODE),
        (unfinished, CODE),
        (touches_time, [SOURCE, BENCH]),
        (unpickles, [SOURCE, BENCH]),
        (asks_for_the_class_of_windows, [SOURCE, BENCH]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_code_keeps(rule: Rule, folders: list[Path]):
    paths = files(*folders)
    assert paths
    assert offences(rule, paths) == []


def test_every_room_says_what_it_is_for():
    rooms = {path.parent for path in files(SOURCE, BENCH)}
    assert [room.name for room in sorted(rooms) if not (room / "__init__.py").exists()] == []


def test_the_documents_are_finished():
    documents = [*ROOT.glob("*.md"), *files(ROOT / "docs", suffix=".md")]
    assert offences(unfinished, documents) == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (too_long, "src/holons/long.py", "x = 1\n" * 451),
        (too_long, "tests/test_long.py", "x = 1\n" * 601),
        (large_class, "src/holons/long.py", "class Long:\n" + "    x = 1\n" * 300),
        (large_class, "src/holons/wide.py", "class Wide:\n" + "".join(f"    x{n}: int\n" for n in range(21))),
        (vague_name, "src/holons/algebra/log_utils.py", ""),
        (vague_name, "src/holons/common/rows.py", ""),
        (unfinished, "src/holons/open.py", "x = 1  # TO" + "DO later\n"),
        (touches_time, "src/holons/node/loop.py", "def now():\n    from time import monotonic\n"),
        (touches_time, "src/holons/node/loop.py", "import random as r\n"),
        (unpickles, "src/holons/store/disk.py", "import pickle\npickle.loads(b'')\n"),
        (unpickles, "src/holons/store/disk.py", "from pickle import loads\n"),
        (unpickles, "src/holons/store/disk.py", "import pyspark\npyspark.cloudpickle.loads(b'')\n"),
        (asks_for_the_class_of_windows, "src/holons/node/node.py", "isinstance(spec, windows.Session | Tumbling)\n"),
    ],
)
def test_a_planted_offence_is_found(rule: Rule, path: str, text: str):
    assert len(rule(path, text)) == 1


def test_exceptions_to_the_rules_still_exist():
    for path in (*TIMEKEEPERS, *UNPICKLERS):
        assert (ROOT / path).exists(), f"{path} is gone: take it off the list"
