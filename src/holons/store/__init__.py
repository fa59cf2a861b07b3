"""Checkpoints: immutable records, named by what they are of and how far they reach.

Read `store.py` (the port), then an implementation.
"""

from holons.store.directory import DirectoryStore
from holons.store.grid import GridStore
from holons.store.memory import MemoryStore
from holons.store.store import Position, Store

__all__ = ["DirectoryStore", "GridStore", "MemoryStore", "Position", "Store"]
