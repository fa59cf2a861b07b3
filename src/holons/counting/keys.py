"""Keys: the total order of all counted rows.

A **counted row** is one that reaches a count window: not late by its own partition's clock, not diverted, not filtered out,
its element not wholly null. Its **number** is its place among its partition's counted rows, as they arrive. The key
(time, partition, number) is unique, and depends on the input alone: who came first does not, so it breaks no tie.

A partition's **frontier** is the key above which all its rows still to come are: after a row or a mark it is (watermark,
partition, numbers in use - 1), since a row at the watermark itself may still follow, with a higher number.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from holons.algebra import IntArray
from holons.windows import BEGINNING, ENDING


class Key(NamedTuple):
    """The place of a counted row in the order of all of them.

    >>> Key(10, 0, 7) < Key(10, 1, 0) < Key(11, 0, 8)
    True
    """

    time: int
    partition: int
    number: int

    @property
    def is_end(self) -> bool:
        """Whether this is the frontier of a partition that has ended."""
        return self.time >= ENDING


FIRST: Final = Key(BEGINNING, -1, -1)
"""Below every row of every partition."""


def rank_in(times: IntArray, numbers: IntArray | int, partition: int, key: Key) -> int:
    """Returns how many rows of one partition, sorted by key, are at or below a key of any partition.

    `numbers` is a column, or the first of consecutive numbers.

    >>> times = np.array([10, 20, 20, 30])
    >>> [rank_in(times, 0, 1, key) for key in (Key(20, 0, 9), Key(20, 1, 1), Key(20, 2, 0))]
    [1, 2, 3]
    """
    if key.partition < partition:
        return int(np.searchsorted(times, key.time, side="left"))
    above = int(np.searchsorted(times, key.time, side="right"))
    if key.partition > partition:
        return above
    below = int(np.searchsorted(times, key.time, side="left"))
    if isinstance(numbers, int):
        return min(max(key.number - numbers + 1, below), above)
    return below + int(np.searchsorted(numbers[below:above], key.number, side="right"))
