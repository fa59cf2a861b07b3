"""Where the code reads bytes that others wrote: found in its source, so that none is forgotten."""

from __future__ import annotations

import ast
from pathlib import Path

import holons

_ROOT = Path(holons.__file__).parent
_SIMULATOR = _ROOT / "engines" / "simulator"
"""It only reads what it has written."""
_READERS = frozenset(
    {
        "RecordFormat",
        "codec.decode",
        "decoder",
        "frombuffer",
        "ipc.open_file",
        "ipc.open_stream",
        "ipc.read_record_batch",
        "ipc.read_schema",
        "json.decode",
        "json.Decoder",
        "json.load",
        "json.loads",
        "MessageReader.open_stream",
        "msgpack.decode",
        "msgpack.Decoder",
        "parquet.ParquetFile",
        "parquet.read_table",
        "pickle.load",
        "pickle.loads",
        "cloudpickle.load",
        "cloudpickle.loads",
        "csv.open_csv",
        "csv.read_csv",
        "json.read_json",
        "unpack",
        "unpack_from",
        "iter_unpack",
        "unquote_to_bytes",
        "wire.decoder",
    }
)
"""What makes values of bytes, by its name or by the end of its dotted name."""

_COUNTING = "within process and replica records"
_OF_THIS_PROCESS = "bytes of this process"
EXEMPT = {
    "holons.algebra.hashing:_hash_strings": _OF_THIS_PROCESS,
    "holons.algebra.quantiles:_float_of": _OF_THIS_PROCESS,
    "holons.counting.counted:decode_rows": _COUNTING,
    "holons.counting.cuts:Cuts._restore": _COUNTING,
    "holons.counting.ledger:Ledger._restore": _COUNTING,
    "holons.counting.samples:RankLattice.decode": _COUNTING,
    "holons.counting.partition:CountedPartition.__init__": _COUNTING,
    "holons.engines.embedded.processes:main": "from the process that started this one, through a pipe that nobody else has",
    "holons.engines.orders:JobOrder.job": "code, once its signature was checked",
    "holons.engines.spark.folding:collected": "an error of a task, through Spark",
    "holons.engines.spark.rounds:Rounds._check": "one small file in JSON, with its errors declared",
    "holons.engines.spark.rounds:Rounds._query": "Spark's own file",
    "holons.engines.spark.source:_offsets": "an option of the user's, with its errors declared",
    "holons.streams.segments.validation:_is_ascii": "columns of frames, which are read and validated together",
    "holons.streams.json_lines:_depth": "brackets only",
    "holons.wcrdt.records:RecordFormat.__init__": "makes formats",
    "holons.wire:decoder": "makes decoders",
}
"""Places that no decoder need cover, and why."""


def places() -> set[str]:
    """Returns the places, as `module:function`, or `module:name` where a module keeps what it makes."""
    found: set[str] = set()
    for path in sorted(set(_ROOT.rglob("*.py")) - set(_SIMULATOR.rglob("*.py"))):
        module = ".".join(["holons", *path.relative_to(_ROOT).with_suffix("").parts]).removesuffix(".__init__")
        _visit(ast.parse(path.read_text()), module, (), found)
    return found


def _visit(node: ast.AST, module: str, inside: tuple[str, ...], found: set[str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _visit(child, module, (*inside, child.name), found)
            continue
        if isinstance(child, ast.Call) and _reads(child.func):
            found.add(f"{module}:{'.'.join(inside) or '(module)'}")
        name = _assigned(child) if not inside else None
        _visit(child, module, (name,) if name else inside, found)


def _reads(function: ast.expr) -> bool:
    name = ast.unparse(function)
    return any(name == reader or name.endswith(f".{reader}") for reader in _READERS)


def _assigned(node: ast.AST) -> str | None:
    """The name to which a statement at the top of a module assigns, if any."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None
