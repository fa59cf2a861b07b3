"""Lattices and aggregates, their laws, and the vectorised kernels that fold columns into them.

Read `aggregate.py` first (the two protocols), then `groups.py` (how rows reach groups), then any aggregate.

**Every aggregate is an exact commutative monoid.** Sums of floats are integers inside (decision 0002), so they may be
subtracted, and the shape of a sliding fold does not show in the result. What is not exact fails the laws.

**The sample of `h.custom` fixes its type.** What a custom aggregate returns has the type that its sample has, for every
group and window. A value that does not fit that type stops the job: otherwise the type of a column would depend on which
values happen to stand beside each other.
"""

from holons.algebra.aggregate import Aggregate, IdempotentAggregate, IntArray, Joined, Lattice, State
from holons.algebra.counters import GCounter, PNCounter
from holons.algebra.custom import Custom, custom
from holons.algebra.groups import Groups
from holons.algebra.histogram import Histogram
from holons.algebra.hyperloglog import HyperLogLog
from holons.algebra.keyed import Keyed
from holons.algebra.lattice_laws import Law
from holons.algebra.maps import MergeMap
from holons.algebra.pareto import ParetoFront
from holons.algebra.product import Product
from holons.algebra.quantiles import Distribution, Quantiles
from holons.algebra.ranked import Ranked
from holons.algebra.registers import MaxRegister, MinRegister
from holons.algebra.rows import Origin, Rows, rows_of
from holons.algebra.sets import DistinctCount, GSet, ORSet, TwoPhaseSet
from holons.algebra.slide import Slide
from holons.algebra.slots import Slot, Slots
from holons.algebra.sums import Average, Sum
from holons.algebra.topk import TopK
from holons.algebra.writes import LWWRegister, MVRegister

__all__ = [
    "Aggregate",
    "Average",
    "Custom",
    "DistinctCount",
    "Distribution",
    "GCounter",
    "GSet",
    "Groups",
    "Histogram",
    "HyperLogLog",
    "IdempotentAggregate",
    "IntArray",
    "Joined",
    "Keyed",
    "LWWRegister",
    "Lattice",
    "Law",
    "MVRegister",
    "MaxRegister",
    "MergeMap",
    "MinRegister",
    "ORSet",
    "Origin",
    "PNCounter",
    "ParetoFront",
    "Product",
    "Quantiles",
    "Ranked",
    "Rows",
    "Slide",
    "Slot",
    "Slots",
    "State",
    "Sum",
    "TopK",
    "TwoPhaseSet",
    "custom",
    "rows_of",
]
