"""What a file needs besides its own bytes to survive the machine."""

from __future__ import annotations

import os
from pathlib import Path


def sync_names(folder: Path) -> None:
    """Makes the names in a folder survive the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
