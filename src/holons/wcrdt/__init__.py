"""Windowed CRDTs: what a partition contributes, how replicas learn of it, and when a window may be read.

Read `handle.py`, then `contribution.py` (writing), `delta.py` (on the wire), `replica.py` (reading), `preview.py` (peeking).

**Progress stops at boundaries.** A delta ends at the last instant at which a window of its stage may end, not at the raw
watermark. So the possible intervals of deltas are a property of the program, not of how a log was read.

**A WLocal handle sends presence.** It seals empty contributions, so that every partition knows which windows exist.

**What only its own stage reads is trimmed early.** A handle with `own_stage` (both sides of a join) is trimmed as soon as
its stage has emitted its windows. Every other handle waits for the later stages too, since their `on_window` may read it.
"""

from holons.wcrdt.contribution import Contributions, Sealed
from holons.wcrdt.delta import Delta, Seal
from holons.wcrdt.handle import Handle
from holons.wcrdt.panes import SealedPanes, nested
from holons.wcrdt.preview import Preview, Previews, known_state
from holons.wcrdt.records import RecordFormat, ReplicaState, check_fits, restoring
from holons.wcrdt.replica import Applied, Gap, Replica, decode_message
from holons.wcrdt.sessions import Sessions

__all__ = [
    "Applied",
    "Contributions",
    "Delta",
    "Gap",
    "Handle",
    "Preview",
    "Previews",
    "RecordFormat",
    "Replica",
    "ReplicaState",
    "Seal",
    "Sealed",
    "SealedPanes",
    "Sessions",
    "check_fits",
    "decode_message",
    "known_state",
    "nested",
    "restoring",
]
