"""Programs: what users write, and how one partition of it runs.

Read `program.py` and `handles.py` (what users see), then `process.py` and `emission.py` (how it runs).

**Only event time and marks make a row late.** A watermark that the program moves by hand (`advance`) seals windows but
does not divert rows, since `process` has already seen the batch. An insert below such a watermark raises, at the same row
for every cut of the log.

**The clock of a later stage** is the last boundary of the stage before it up to which all windows are emitted. In
`on_window(w)` a program may insert at or after the last boundary before `w.end`; `insert(x, window)`, which inserts at the
window's last instant, always works. **`stage=` is declared**, not inferred: all nodes must know which stage feeds which
before the first row.

**Sessions** use panes of a quarter of the gap, with one fragment for each key and pane. A session is emitted once a whole
pane after its end is known; a stage with sessions emits all of its windows up to that pane, so that their order is total.

**A handle that counts rows is a lane** (`lanes.py`): a clock of its own beside the stages, on the axis of ranks. Clocks are
numbered: those of the stages, then those of the lanes; everything that is kept "by stage" elsewhere is kept by clock. When a
node hears of a cut depends on timing, where it lies does not. To know how many rows there are is not to know all cuts: a
lane has ended once no cut can follow. A WLocal lane sends when its rows were, so that everybody knows a window's last time.

**The type of an output row comes from that row alone.** Dicts of one shape become one table; 1 never becomes 1.0 because
of a neighbouring row. `emit = "once"` is an attribute of the program; `process` emits rows with
`self.output(rows, channel=...)`.

**Diverted rows name their stream**: `_stream` stands beside `_offset`, since a job's partitions count through all streams.

**A map is read once for all partitions of a node**, and split into shares once if its values are numbers or texts. Values
that a reader could change are copied for each reader.

**Side tables are part of the program** (`h.table`): plain values, sorted by key, so that the digest of a job does not
depend on the order in which Spark collects rows.
"""

from holons.program.events import Event, Events, Times
from holons.program.handles import WCRDT, Local, Nested, Scope, WLocal
from holons.program.job import Input, Job, job
from holons.program.layout import Callback, Layout, bind, layout_of
from holons.program.outputs import Channel, Collected, Cut, Output, canonical, collect
from holons.program.ports import PartitionRun, RecordHeader, RunProgress, SharedState, SyncMessage
from holons.program.program import Program, on_window
from holons.program.records import Records
from holons.program.run import ProgramRun
from holons.program.tables import Table, table

__all__ = [
    "WCRDT",
    "Callback",
    "Channel",
    "Collected",
    "Cut",
    "Event",
    "Events",
    "Input",
    "Job",
    "Layout",
    "Local",
    "Nested",
    "Output",
    "PartitionRun",
    "Program",
    "ProgramRun",
    "RecordHeader",
    "Records",
    "RunProgress",
    "Scope",
    "SharedState",
    "SyncMessage",
    "Table",
    "Times",
    "WLocal",
    "bind",
    "canonical",
    "collect",
    "job",
    "layout_of",
    "on_window",
    "table",
]
