"""The programs of the folder `examples`, as modules of the package: `holons.examples.bid_share:job` is found everywhere.

The simulator runs some of them, also where only the package is installed. So the files are written once, where people
look for examples, and are links here; a wheel has copies of them.
"""

from __future__ import annotations

import importlib

from holons.program import Job


def example(name: str) -> Job:
    """Returns the job of an example.

    >>> example("bid_share").name
    'BidShare'
    """
    job: Job = importlib.import_module(f"holons.examples.{name}").job
    return job
