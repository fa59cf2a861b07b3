"""The simulator: real nodes in virtual time, from a seed, while everything around them breaks.

Read `faults.py` (what can go wrong), `world.py` (how it goes wrong), `simulation.py` (running it, and judging).
"""

from holons.engines.simulator.faults import Fault, Kind, draw_faults
from holons.engines.simulator.simulation import Outcome, Simulation, shrink, simulate

__all__ = ["Fault", "Kind", "Outcome", "Simulation", "draw_faults", "shrink", "simulate"]
