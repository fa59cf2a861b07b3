"""Event time: windows, the panes they are made of, watermarks and lateness.

Read `window.py`, then `specs.py` (what every kind of window answers; `fixed.py` and `session.py` hold the kinds), then
`watermark.py` (when windows are complete).

**The watermark at a row includes the row.** A row's own time, less the allowed disorder, counts before `process` sees the
row. So the first row of a window seals the window before it, and a call may await that window at once. If the row did
not count, the natural program ("compare with the last window") would deadlock on the first row of every window.
Lateness is the same under both definitions.
"""

from holons.windows.duration import BEGINNING, ENDING, TIME_LIMIT, Duration, Instant, instant, instant_text, micros
from holons.windows.fixed import FixedSpec, Sliding, Tumbling
from holons.windows.session import Session
from holons.windows.specs import AlignedSpec, RegularPanes, StitchedSpec, WindowSpec
from holons.windows.watermark import END, EventClock, Mark, Observed, is_ascending, seal_points
from holons.windows.window import Window

__all__ = [
    "BEGINNING",
    "END",
    "ENDING",
    "TIME_LIMIT",
    "AlignedSpec",
    "Duration",
    "EventClock",
    "FixedSpec",
    "Instant",
    "Mark",
    "Observed",
    "RegularPanes",
    "Session",
    "Sliding",
    "StitchedSpec",
    "Tumbling",
    "Window",
    "WindowSpec",
    "instant",
    "instant_text",
    "is_ascending",
    "micros",
    "seal_points",
]
