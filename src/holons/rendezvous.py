"""Rendezvous hashing: in which order nodes come first for something, the same on every node, without a coordinator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def preference(key: str, nodes: Iterable[str]) -> list[str]:
    """Returns the nodes in their order for `key`. A node that comes or goes changes the order of no two others.

    >>> preference("records/7", ["a", "b", "c"])
    ['b', 'a', 'c']
    """
    return sorted(nodes, key=lambda node: hashlib.blake2b(f"{key}/{node}".encode(), digest_size=8).digest())
