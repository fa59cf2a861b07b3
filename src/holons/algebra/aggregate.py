"""The two protocols that everything else stands on: `Lattice` and `Aggregate`.

A **lattice** is what replicas exchange: joining is associative, commutative and idempotent, so messages may be lost,
repeated and reordered. An **aggregate** is what users want: an exact commutative monoid with a fast fold. Any
aggregate becomes a lattice by keeping one slot per partition (`slots.Slots`); an idempotent one is a lattice already.

Exactness is a law (invariant: exact folds): folding rows in two batches and merging gives the very bytes that one
batch gives, in any order and with any cut. Float addition is not like that, so float sums are kept exactly
(`exact.py`), and nothing downstream ever has to know where a batch ended or a run resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from holons import codec
from holons.errors import BadElement, CodecError

if TYPE_CHECKING:
    from holons.algebra.groups import Groups
    from holons.algebra.rows import Rows

V_co = TypeVar("V_co", covariant=True)
L = TypeVar("L")

IntArray: TypeAlias = npt.NDArray[np.int64]
State: TypeAlias = "tuple[np.ndarray, ...]"
"""The states of n groups: columns whose first dimension is n. Never changed in place once handed out."""


_Column: TypeAlias = "tuple[np.dtype[Any], tuple[int, ...]]"
"""The type of a column of states, and the shape of what one group has in it."""
_COLUMNS: Final[dict[int, tuple[Any, tuple[_Column, ...]]]] = {}
"""By its identity, an aggregate, and what the columns of its states are."""
_COLUMNS_MAX: Final = 256


class Joined(NamedTuple, Generic[L]):
    """The outcome of a join, and whether it differs from the left-hand side."""

    state: L
    changed: bool


class Lattice(Protocol[L]):
    """A join semilattice: what replicas may exchange in any order, any number of times."""

    def bottom(self) -> L:
        """The least state; joining it changes nothing."""
        ...

    def join(self, a: L, b: L) -> Joined[L]:
        """The least state at or above both."""
        ...

    def leq(self, a: L, b: L) -> bool:
        """Whether `b` already holds all of `a`: exactly when joining `a` into `b` changes nothing."""
        ...

    def encode(self, state: L) -> bytes:
        """Canonical bytes."""
        ...

    def decode(self, data: bytes) -> L:
        """The state that `encode` was given."""
        ...


class Aggregate(ABC, Generic[V_co]):
    """An exact commutative monoid over columns. A frozen, picklable description; it holds no data itself.

    A state describes n groups at once (windows, or keys within a window): a tuple of NumPy columns of length n.
    Aggregates of variable size use a column of Python objects. A null in an element means: the row is not there.
    """

    invertible: ClassVar[bool] = False
    """Whether `subtract` exactly undoes `merge`, so that sliding windows may subtract what leaves."""

    idempotent: ClassVar[bool] = False
    """Whether `merge` is a join: then states are a lattice without slots."""

    @abstractmethod
    def zero(self, n: int) -> State:
        """n groups without any row."""

    @abstractmethod
    def fold(self, groups: Groups, rows: Rows) -> State:
        """The states of `groups.n` groups after folding `rows` into zero. No Python per row."""

    @abstractmethod
    def merge(self, a: State, b: State) -> State:
        """Group by group: the rows of both."""

    @abstractmethod
    def value(self, state: State, group: int = 0) -> V_co:
        """What a user reads for one group."""

    def values(self, state: State) -> npt.NDArray[np.generic]:
        """What a user reads for every group, as one column."""
        return codec.object_array([self.value(state, group) for group in range(size(state))])

    def subtract(self, a: State, b: State) -> State:
        """Group by group: `a` without the rows of `b`. Only where `invertible`."""
        raise BadElement(f"{type(self).__name__} cannot be subtracted", hint="check `invertible` first")

    def touched(self, state: State) -> npt.NDArray[np.bool_] | None:
        """Which groups have rows, if a state tells (a counter does not: it may have been given zeros)."""
        return None

    def encode(self, state: State) -> bytes:
        """Canonical bytes: equal states, equal bytes."""
        return codec.encode(state)

    def decode(self, data: bytes) -> State:
        """The state that `encode` was given."""
        state = codec.decode(data)
        if not isinstance(state, tuple) or not _is_like(state, _columns(self)):
            raise CodecError(f"not a state of {self.describe()}", hint="the data is damaged, or of another program")
        return state

    def describe(self) -> str:
        """A short name for people."""
        return type(self).__name__


def _columns(aggregate: Aggregate[Any]) -> tuple[_Column, ...]:
    """What the columns of an aggregate's states are. They are kept by identity: what users define may have no hash."""
    known = _COLUMNS.get(id(aggregate))
    if known is None:
        if len(_COLUMNS) >= _COLUMNS_MAX:
            _COLUMNS.clear()
        columns = tuple((column.dtype, column.shape[1:]) for column in aggregate.zero(1))
        known = _COLUMNS[id(aggregate)] = aggregate, columns
    return known[1]


def _is_like(state: State, columns: tuple[_Column, ...]) -> bool:
    """Whether a state has columns like these, all of one length. What is in columns of objects is not looked at."""
    known = tuple(
        (column.dtype, column.shape[1:]) for column in state if isinstance(column, np.ndarray) and column.ndim
    )
    return known == columns and len(state) == len(known) and len({len(column) for column in state}) == 1


class IdempotentAggregate(Aggregate[V_co]):
    """An aggregate whose merge is a join, so that its one-group states are a lattice as they are."""

    idempotent: ClassVar[bool] = True

    def bottom(self) -> State:
        return self.zero(1)

    def join(self, a: State, b: State) -> Joined[State]:
        state = self.merge(a, b)
        return Joined(state, self.encode(state) != self.encode(a))

    def leq(self, a: State, b: State) -> bool:
        return not self.join(b, a).changed


# --- states, whatever the aggregate ---------------------------------------------------------------------------------


def size(state: State) -> int:
    """How many groups a state describes."""
    return len(state[0])


def take(state: State, index: IntArray | slice) -> State:
    """Some of the groups, in the order of `index`."""
    return tuple(column[index] for column in state)


def pick(state: State, group: int) -> State:
    """One group, as a state of its own."""
    return take(state, slice(group, group + 1))


def concat(states: Sequence[State]) -> State:
    """The groups of several states, one after the other."""
    return tuple(np.concatenate(columns) for columns in zip(*states, strict=True))


def place(zero: State, index: IntArray | slice, state: State) -> State:
    """`state`'s groups at the positions `index` of an otherwise empty state. `zero` is used up."""
    for target, column in zip(zero, state, strict=True):
        target[index] = column
    return zero
