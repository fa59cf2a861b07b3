"""Why the nodes of a driver ended. One that died is replaced, unless all die of the same again and again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from holons.errors import DescribedError, NodesFailed

_REPLACED_MAX = 3  # so many nodes may end like those that they replaced
_FORGOTTEN_S = 600.0  # what happened longer ago is another matter
_TEXT_CHARACTERS_MAX = 10_000
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+")  # numbers, and what makes names unique


class Ending(NamedTuple):
    """How a node ended that nobody asked to."""

    reason: str
    raised: bool
    """Whether an error ended it, and not a signal or the loss of its machine: that may happen to any node."""


def ending_text(error: BaseException) -> str:
    """Returns an error as the reason of an ending."""
    text = str(error) if isinstance(error, DescribedError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_TEXT_CHARACTERS_MAX]


class Endings:
    """The endings of a driver's nodes."""

    def __init__(self) -> None:
        self._noted: dict[str, int] = {}
        self._recent: list[tuple[float, str]] = []

    def note(self, node: str, endings: Sequence[Ending], now_s: float, *, heard: bool) -> None:
        """Notes how a node ended, each time so far; `heard`: whether it ever sent a heartbeat.

        A node that was killed while it ran is no sign of anything, and what it ran is suspected by the nodes themselves.
        """
        new = endings[self._noted.get(node, 0) :]
        self._noted[node] = len(endings)
        self._recent += [(now_s, ending.reason) for ending in new if ending.raised or not heard]

    def check(self, nodes: int, now_s: float) -> None:
        """Raises an error if so many nodes have ended alike that those to come will, too."""
        self._recent = [(at_s, reason) for at_s, reason in self._recent if now_s - at_s <= _FORGOTTEN_S]
        alike = Counter(_kind(reason) for _, reason in self._recent)
        kind, count = max(alike.items(), key=lambda item: item[1], default=("", 0))
        if count >= nodes + _REPLACED_MAX:
            reason = next(reason for _, reason in reversed(self._recent) if _kind(reason) == kind)
            story, _, hint = reason.partition("\n  hint: ")
            raise NodesFailed(
                f"node after node has ended alike, {count} of them: {story}",
                hint=hint or "look at what their processes, or Spark's workers, print",
            )


def _kind(reason: str) -> str:
    return _VARYING.sub("#", reason.partition("\n")[0])
