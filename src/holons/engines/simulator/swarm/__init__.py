"""A swarm of runs: nodes, settings, jobs, actors and the kinds of faults are drawn for each seed.

Read `drawing.py` (what a seed stands for), `run.py` (one run), `invariants.py` (what must hold at every step),
`situations.py` (what must be met at some time), `actors.py` (drivers, producers, readers), `keepers.py` (retention and named
consumers), `visitors.py` (those who come by) and `power.py` (what a machine that dies leaves on its disk).
"""

from holons.engines.simulator.swarm.drawing import Draw, draw
from holons.engines.simulator.swarm.run import SwarmOutcome, simulate_draw
from holons.engines.simulator.swarm.situations import MET_WITHIN, never_met

__all__ = ["MET_WITHIN", "Draw", "SwarmOutcome", "draw", "never_met", "simulate_draw"]
