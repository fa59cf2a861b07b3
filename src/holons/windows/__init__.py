"""Event time: windows, the panes they are made of, watermarks and lateness.

Read `window.py`, then `specs.py` (the kinds of windows), then `watermark.py` (when windows are complete).

**The watermark at a row includes the row.** A row's own time, less the allowed disorder, counts before `process` sees the
row. So the first row of a window seals the window before it, and a call may await that window at once. If the row did
not count, the natural program ("compare with the last window") would deadlock on the first row of every window.
Lateness is the same under both definitions.
"""

from holons.windows.duration import BEGINNING, ENDING, TIME_LIMIT, Duration, Instant, instant, instant_text, micros
from holons.windows.specs import FixedSpec, Session, Sliding, Tumbling, WindowSpec
from holons.windows.watermark import END, EventClock, Mark, Observed, is_ascending, seal_points
from holons.windows.window import Window

__all__ = [
    "BEGINNING",
    "END",
    "ENDING",
    "TIME_LIMIT",
    "Duration",
    "EventClock",
    "FixedSpec",
    "Instant",
    "Mark",
    "Observed",
    "Session",
    "Sliding",
    "Tumbling",
    "Window",
    "WindowSpec",
    "instant",
    "instant_text",
    "is_ascending",
    "micros",
    "seal_points",
]
