"""Windowed CRDTs: what a partition contributes, how replicas learn of it, and when a window may be read.

Read `handle.py`, then `contribution.py` (writing), `delta.py` (on the wire), `replica.py` (reading), `preview.py` (peeking).
"""

from holons.wcrdt.contribution import Contributions, Sealed
from holons.wcrdt.delta import Delta, Seal
from holons.wcrdt.handle import Handle
from holons.wcrdt.panes import SealedPanes
from holons.wcrdt.preview import Preview, Previews, known_state
from holons.wcrdt.replica import Applied, Gap, Replica
from holons.wcrdt.sessions import Sessions

__all__ = [
    "Applied",
    "Contributions",
    "Delta",
    "Gap",
    "Handle",
    "Preview",
    "Previews",
    "Replica",
    "Seal",
    "Sealed",
    "SealedPanes",
    "Sessions",
    "known_state",
]
