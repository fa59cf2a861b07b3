"""The dataflow API: pipelines of streams, windows and results, lowered to one `Program`.

Read `api.py` first (what people write), then `plan.py` (what that is), then `pipeline.py` (how it runs).
"""

from holons.program.dataflow.api import Completed, Dataset, Flow, Grouped, Stream, Windowed, source
from holons.program.dataflow.diagrams import Diagram
from holons.program.dataflow.measure import Measure
from holons.program.dataflow.measures import (
    approx_count_distinct,
    count,
    count_distinct,
    last,
    max,
    mean,
    min,
    quantile,
    sum,
    top_k,
    using,
)

__all__ = [
    "Completed",
    "Dataset",
    "Diagram",
    "Flow",
    "Grouped",
    "Measure",
    "Stream",
    "Windowed",
    "approx_count_distinct",
    "count",
    "count_distinct",
    "last",
    "max",
    "mean",
    "min",
    "quantile",
    "source",
    "sum",
    "top_k",
    "using",
]
