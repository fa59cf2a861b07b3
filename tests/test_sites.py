"""Sites own their paths, and logs their implementations: nobody else joins the one or imports the other.

And files of a site are made in one place, `holons.disk`, which knows who may read them and what survives the machine.
"""

from __future__ import annotations

import ast

import pytest
from tests.test_style import ROOT, SOURCE, Rule, files, names_used, offences

PARTS = frozenset({"input", "output", "shared", "store", "journal", "batches", "folds"})
IMPLEMENTATIONS = frozenset({"holons.streams.memory", "holons.streams.segments"})
CLASSES = frozenset({"MemoryLog", "SegmentLog", "SegmentSharedLog", "StoredLog", "StoredSharedLog"})
SITES = ("src/holons/engines/directory_site.py", "src/holons/engines/memory_site.py")


def joins_a_path_of_a_site(path: str, text: str) -> list[str]:
    if path in SITES:
        return []
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}: ask the site for the log, or for a folder"
        for node in ast.walk(ast.parse(text))
        if any(_is_part(name) for name in _joined(node))
    ]


def _joined(node: ast.AST) -> list[ast.expr]:
    """The names that an expression joins to a path."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        of_a_site = ast.unparse(node.left).endswith("site.directory")
        return [ast.Constant("input")] if of_a_site else [node.right]
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("joinpath", "join", "Path"):
        return node.args[1:] if ast.unparse(node.func) == "Path" else node.args
    return []


def _is_part(name: ast.expr) -> bool:
    return isinstance(name, ast.Constant) and name.value in PARTS


def imports_an_implementation(path: str, text: str) -> list[str]:
    if path.startswith("src/holons/streams/") or path in SITES:
        return []
    return [
        f"{path}:{line}: {module}.{name} is how a log is stored: ask a site for a log"
        for module, name, line in names_used(text)
        if ".".join(module.split(".")[:3]) in IMPLEMENTATIONS
        or f"{module}.{name}" in IMPLEMENTATIONS
        or (module.startswith("holons.streams") and name in CLASSES)
    ]


MAKERS = frozenset({"mkdir", "makedirs", "mkdtemp", "mkstemp", "touch", "write_bytes", "write_text", "fsync"})
OPENERS = frozenset({"open", "OSFile", "open_output_stream"})
OWN_FILES = (
    "src/holons/engines/scratch.py",  # temporary directories
    "src/holons/streams/sinks.py",  # files for others
)
WRITES = frozenset("wxa+")


def makes_a_file_by_itself(path: str, text: str) -> list[str]:
    if not path.startswith(("src/holons/streams/", "src/holons/store/", "src/holons/engines/")) or path in OWN_FILES:
        return []
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}: files of a site are made by holons.disk"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and _makes_a_file(node)
    ]


def _makes_a_file(call: ast.Call) -> bool:
    name = ast.unparse(call.func).split(".")[-1]
    modes = [at.value for at in (*call.args, *(word.value for word in call.keywords)) if isinstance(at, ast.Constant)]
    writes = "O_CREAT" in ast.unparse(call) or any(
        isinstance(mode, str) and len(mode) <= 3 and WRITES.intersection(mode) for mode in modes
    )
    return name in MAKERS or (name in OPENERS and writes)


@pytest.mark.parametrize(
    "rule", [joins_a_path_of_a_site, imports_an_implementation, makes_a_file_by_itself], ids=lambda rule: rule.__name__
)
def test_nobody_but_sites(rule: Rule):
    assert offences(rule, files(SOURCE, ROOT / "bench" / "src")) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (joins_a_path_of_a_site, 'at / "input"\n'),
        (joins_a_path_of_a_site, 'site.directory / "relations"\n'),
        (joins_a_path_of_a_site, "running.site.directory / name\n"),
        (joins_a_path_of_a_site, 'root.joinpath("shared")\n'),
        (joins_a_path_of_a_site, 'os.path.join(root, "output")\n'),
        (joins_a_path_of_a_site, 'Path(root, "store")\n'),
        (makes_a_file_by_itself, "path.mkdir(parents=True)\n"),
        (makes_a_file_by_itself, "(self._folder / name).touch()\n"),
        (makes_a_file_by_itself, "part.write_bytes(data)\n"),
        (makes_a_file_by_itself, "with part.open('xb') as file:\n    pass\n"),
        (makes_a_file_by_itself, "open(path, mode='w')\n"),
        (makes_a_file_by_itself, "os.open(path, os.O_RDWR | os.O_CREAT, 0o644)\n"),
        (makes_a_file_by_itself, "os.fsync(file)\n"),
        (imports_an_implementation, "from holons.streams.segments import SegmentLog\n"),
        (imports_an_implementation, "from holons.streams.segments.log import SegmentLog\n"),
        (imports_an_implementation, "from holons.streams import MemoryLog\n"),
        (imports_an_implementation, "from holons.streams import segments\n"),
        (imports_an_implementation, "from holons.streams.folder import StoredLog\n"),
        (imports_an_implementation, "import holons.streams.memory\nholons.streams.memory.MemoryLog(1)\n"),
    ],
)
def test_a_planted_offence_is_found(rule: Rule, text: str):
    assert rule("src/holons/engines/elsewhere.py", text)
    allowed = "src/holons/disk.py" if rule is makes_a_file_by_itself else "src/holons/engines/memory_site.py"
    assert not rule(allowed, text)


def test_what_only_looks_like_it_is_allowed():
    assert not joins_a_path_of_a_site("src/holons/cli/rows.py", '", ".join(names)\nroot / "inputs"\n')
    assert not imports_an_implementation("src/holons/cli/rows.py", "from holons.streams import ReadableLog\n")
