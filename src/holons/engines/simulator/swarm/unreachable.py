"""The lines of nodes that no simulated run can reach by its nature. Coverage does not count them; each has its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_STILL = "virtual time stands still while a node has its turn, however much it does"
_ALONE = "nobody else does anything while a node has its turn, so what it reads twice in a turn is the same"
_AT_ONCE = "a node reads its own messages at once here; a log may show them later, or not all at one time"


class Line(NamedTuple):
    """A line of a function, by its text, so that it is found again wherever the function moves."""

    file: str
    function: str
    text: str


UNREACHABLE: Final[Mapping[Line, str]] = {
    Line("pace.py", "learn", "self.size = max(1, min(self.size, int(done * _SLICE_S / worked_s)))"): _STILL,
    Line("pace.py", "learn", "self.size = max(1, self.size // 2)"): _STILL,
    Line("node.py", "_start_and_stop", "break"): _STILL,
    Line("state_keeper.py", "_newest", "return self._newest()"): _ALONE,
    Line("claiming.py", "_write", "return view"): _AT_ONCE,
    Line("placement.py", "<genexpr>", "self.stream(slot)"): _AT_ONCE,
}
