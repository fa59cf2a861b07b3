"""Records for machines: what commands write with `--json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write it for machines, too ([bold]-[/bold]: stdout, and nothing else)."
    ),
]


def write_records(records: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write `records` as one JSON array to `file`, or to standard output if it is called `-`."""
    text = json.dumps([dict(record) for record in records], indent=1) + "\n"
    if str(file) == "-":
        sys.stdout.write(text)
    else:
        file.write_text(text)
