"""Deco's schemes as pure state machines, beside the one that nodes run (`ruler`), over one transport.

Read `machines.py` (what every scheme is), `messages.py`, `central.py` (what all but `approx` must equal). Then `cover.py`,
`decision.py` and `roots.py` (what a root knows, when a cut is certain, how it starts again) and `requests.py` (how a
partition answers): `mon`, `sync` and `async` differ in what is sent unasked, and in what the root asks for.
"""

from holons.counting.schemes.approx import Approx, misplaced_rows
from holons.counting.schemes.asynchronous import Async
from holons.counting.schemes.central import Central
from holons.counting.schemes.machines import ALL, ROOT, Local, PaneResult, Root, Scheme, Transport
from holons.counting.schemes.messages import Message
from holons.counting.schemes.mon import Mon
from holons.counting.schemes.ruler import MonLocal, Ruler
from holons.counting.schemes.sync import Sync

__all__ = [
    "ALL",
    "ROOT",
    "Approx",
    "Async",
    "Central",
    "Local",
    "Message",
    "Mon",
    "MonLocal",
    "PaneResult",
    "Root",
    "Ruler",
    "Scheme",
    "Sync",
    "Transport",
    "misplaced_rows",
]
