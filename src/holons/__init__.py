"""Holons: global aggregations over partitioned streams, exact and without a shuffle.

`import holons as h`, subclass `h.Program`, bind it with `h.job(...)`, run it with `h.run(...)`.
"""

from holons.algebra import (
    Aggregate,
    Average,
    GCounter,
    GSet,
    Histogram,
    HyperLogLog,
    Keyed,
    Lattice,
    LWWRegister,
    MaxRegister,
    MergeMap,
    MinRegister,
    MVRegister,
    ORSet,
    ParetoFront,
    PNCounter,
    Product,
    Quantiles,
    Slots,
    Sum,
    TopK,
    TwoPhaseSet,
)
from holons.engines import Progress, Results, Run, run
from holons.errors import HolonsError
from holons.node import Settings
from holons.program import (
    WCRDT,
    Event,
    Events,
    Input,
    Job,
    Local,
    Nested,
    Program,
    WLocal,
    job,
    on_window,
)
from holons.windows import Session, Sliding, Tumbling, Window

__version__ = "0.1.0"

__all__ = [
    "WCRDT",
    "Aggregate",
    "Average",
    "Event",
    "Events",
    "GCounter",
    "GSet",
    "Histogram",
    "HolonsError",
    "HyperLogLog",
    "Input",
    "Job",
    "Keyed",
    "LWWRegister",
    "Lattice",
    "Local",
    "MVRegister",
    "MaxRegister",
    "MergeMap",
    "MinRegister",
    "Nested",
    "ORSet",
    "PNCounter",
    "ParetoFront",
    "Product",
    "Program",
    "Progress",
    "Quantiles",
    "Results",
    "Run",
    "Session",
    "Settings",
    "Sliding",
    "Slots",
    "Sum",
    "TopK",
    "Tumbling",
    "TwoPhaseSet",
    "WLocal",
    "Window",
    "job",
    "on_window",
    "run",
]
