"""The command line: the only room that knows all the others.

`holons --help` says what there is; `main` is the entry point.
"""

from holons.cli.app import main

__all__ = ["main"]
