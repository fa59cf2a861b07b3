"""The simulator: real nodes in virtual time, from a seed, while everything around them breaks.

Read `faults.py` (what can go wrong), `world.py` (how it goes wrong), `simulation.py` (running it, and judging).
`scenarios.py` has jobs and inputs to run, `actors.py` the port of those who work beside the nodes.
"""

from holons.engines.simulator.actors import Actor, Stage
from holons.engines.simulator.faults import FIRST_KINDS, Fault, Kind, draw_faults
from holons.engines.simulator.simulation import Outcome, Simulation, shrink, simulate

__all__ = [
    "FIRST_KINDS",
    "Actor",
    "Fault",
    "Kind",
    "Outcome",
    "Simulation",
    "Stage",
    "draw_faults",
    "shrink",
    "simulate",
]
