"""What must be true: the sequential oracle. Never imports `node`, nor the reading half of `wcrdt`."""

from holons.semantics.oracle import Log, run

__all__ = ["Log", "run"]
