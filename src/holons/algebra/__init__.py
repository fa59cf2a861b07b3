"""Lattices and aggregates, their laws, and the vectorised kernels that fold columns into them.

Read `aggregate.py` first (the two protocols), then `groups.py` (how rows reach groups), then any aggregate.
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
