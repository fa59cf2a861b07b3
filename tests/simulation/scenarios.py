"""The scenarios that the package brings along: see `holons.engines.simulator.scenarios`."""

from __future__ import annotations

from holons.engines.simulator.scenarios import SCENARIOS, VARIANTS, HighestBid, prepared, simulated

__all__ = ["SCENARIOS", "VARIANTS", "HighestBid", "prepared", "simulated"]
