"""How many records of an ended segment count: decided once, and then the same for everybody.

    open       as long as its writer may add to the segment
    counted    once it has ended: how many of its records count

Whoever removes `open` ends a segment, but its writer may stand still just before it publishes what it has prepared. So a
reader that sees something new in a segment looks for `open`: if that is still there, the writer has published in time. If
not, the reader proposes what is published by now as the number that counts. The first proposal wins; what is published
beyond it counts for nobody. All proposals are at least what anybody saw while `open` was there, so what was read or
acknowledged counts.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holons import disk

COUNTED_FILE: Final = "counted"
_END: Final = b"."
_CANNOT_WRITE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})


def counted(segment: Path, published: Callable[[], int], *, durable: bool = False) -> int | None:
    """Returns how many records of a segment that has ended count; None if its file is damaged.

    `published` returns how many are published; it is asked after the segment has ended, if nobody has decided yet.
    With `durable` the machine's death changes nothing about it.
    """
    file = segment / COUNTED_FILE
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        proposed = published()
        try:
            decide(segment, proposed, durable=durable)
        except OSError as error:
            if error.errno not in _CANNOT_WRITE:
                raise
            return (
                proposed  # who can tell nobody reads what is published: the number that will be decided is not below it
            )
        text = file.read_bytes()
    number = text.removesuffix(_END)
    return int(number) if number.isdigit() and number != text else None


def decide(segment: Path, records: int, *, durable: bool = False) -> None:
    """Lets so many records of an ended segment count, unless somebody has decided before."""
    part = segment / f"{COUNTED_FILE}.{uuid.uuid4().hex}"
    disk.write(part, b"%d" % records, _END, durable=durable)
    try:
        os.link(part, segment / COUNTED_FILE)
    except FileExistsError:
        pass
    finally:
        part.unlink(missing_ok=True)
    if durable:
        disk.sync(segment / COUNTED_FILE)  # somebody else's may not be on the disk yet
        disk.sync(segment)
