"""Event time: windows, the panes they are made of, watermarks and lateness.

Read `window.py`, then `specs.py` (which windows there are), then `watermark.py` (when they are over).
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
