"""Who may read what a site has on the disk."""

from __future__ import annotations

import stat
from pathlib import Path


def open_to_others(site: Path, *, besides: frozenset[str] = frozenset()) -> list[str]:
    """Returns every folder at or below a site that is not 0700, and every file that is not 0600."""
    found = []
    for path in (site, *site.rglob("*")):
        parts = path.relative_to(site).parts
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode != (0o700 if path.is_dir() else 0o600) and not besides.intersection(parts):
            found.append(f"{oct(mode)} {path.relative_to(site)}")
    return found
