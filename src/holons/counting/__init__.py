"""Count windows, exactly and decentralised (Deco): "the sum of every million rows", without a root.

Read `keys.py` (the order of all rows) and `boundaries.py` (windows on the axis of ranks), then `samples.py` and
`selection.py` (how cuts follow from what partitions publish), `ledger.py` (a partition's rows until they are cut) and
`partition.py` (one partition as nodes run it). `schemes` has Deco's own ways beside it, for comparison.

**There is no root.** Where a segment of a log ends that a root reads would depend on when a prediction was heard, so two
owners of a partition would write different rows at one position. A partition's rank of a key does not depend on it. So
partitions publish samples of ranks, and every node finds the same cuts from them; each partition then seals an ordinary
contribution.

**Predictions decide what is sent early, and nothing else.** A right one saves a round, a wrong one costs one.
"""

from holons.counting.boundaries import CountWindow
from holons.counting.counted import counted_rows
from holons.counting.cuts import CutRanks, Cuts
from holons.counting.keys import FIRST, Key
from holons.counting.ledger import Contribution, Ledger
from holons.counting.partition import CountedPartition
from holons.counting.samples import KnownRanks, RankLattice, Samples
from holons.counting.selection import Gap, Selection, select

__all__ = [
    "FIRST",
    "Contribution",
    "CountWindow",
    "CountedPartition",
    "CutRanks",
    "Cuts",
    "Gap",
    "Key",
    "KnownRanks",
    "Ledger",
    "RankLattice",
    "Samples",
    "Selection",
    "counted_rows",
    "select",
]
