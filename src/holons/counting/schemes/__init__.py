"""Deco's schemes as pure state machines, beside the one that nodes run (`ruler`), over one transport.

Read `machines.py` (what every scheme is), `messages.py`, `central.py` (what all must equal), then any scheme.
"""

from holons.counting.schemes.central import Central
from holons.counting.schemes.machines import ALL, ROOT, Local, PaneResult, Root, Scheme, Transport
from holons.counting.schemes.messages import Message
from holons.counting.schemes.ruler import MonLocal, Ruler

__all__ = [
    "ALL",
    "ROOT",
    "Central",
    "Local",
    "Message",
    "MonLocal",
    "PaneResult",
    "Root",
    "Ruler",
    "Scheme",
    "Transport",
]
