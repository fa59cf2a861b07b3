"""The command line: the only room that knows all the others.

`holons --help` lists the commands; `main` is the entry point. It needs typer and rich, which come with the extra `cli`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line, or says what to install for it; always ends in `SystemExit`."""
    missing = [package for package in ("rich", "typer") if find_spec(package) is None]
    if missing:
        packages = f"{' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise SystemExit(f"error: the command line needs {packages}\n  hint: pip install 'holons[cli]'")
    from holons.cli import app

    app.main(arguments)
