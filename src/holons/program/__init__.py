"""Programs: what users write, and how one partition of it runs.

Read `program.py` and `handles.py` (what users see), then `process.py` and `emission.py` (what happens).
"""

from holons.program.events import Event, Events, Times
from holons.program.handles import WCRDT, Local, Nested, Scope, WLocal
from holons.program.job import Input, Job, job
from holons.program.layout import Callback, Layout, bind, layout_of
from holons.program.outputs import Collected, Cut, Output, canonical, collect
from holons.program.program import Program, on_window
from holons.program.run import PartitionRun, Records, cut_after
from holons.program.tables import Table, table

__all__ = [
    "WCRDT",
    "Callback",
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
    "Records",
    "Scope",
    "Table",
    "Times",
    "WLocal",
    "bind",
    "canonical",
    "collect",
    "cut_after",
    "job",
    "layout_of",
    "on_window",
    "table",
]
