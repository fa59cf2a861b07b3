"""Apache Flink: what Holons is compared with, in a process and a virtual environment of its own.

Nothing here imports Flink: `Flink` starts `job.py` with the Python of that environment and talks with it in lines of JSON.
"""

from holons_bench.flink.environment import VERSION, FlinkEnvironment, environment
from holons_bench.flink.queries import QUERIES, Query
from holons_bench.flink.system import Flink, Measured

__all__ = ["QUERIES", "VERSION", "Flink", "FlinkEnvironment", "Measured", "Query", "environment"]
