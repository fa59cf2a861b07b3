"""Every store there is, empty, by its name."""

import itertools

from pyarrow import fs
from tests.unit.store.grids import PatientGrid

from holons.store import DirectoryStore, MemoryStore

_numbers = itertools.count()


def memory(root):
    return MemoryStore()


def directory(root):
    return DirectoryStore(root / f"directory-{next(_numbers)}")


def durable_directory(root):
    return DirectoryStore(root / f"durable-{next(_numbers)}", durability="disk")


def foreign_filesystem(root):
    """Not a local file system, as far as the store can tell: no hard links, no sync."""
    return DirectoryStore(f"foreign-{next(_numbers)}", filesystem=fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()))


def grid(root):
    return PatientGrid()


STORES = {make.__name__: make for make in (memory, directory, durable_directory, foreign_filesystem, grid)}
