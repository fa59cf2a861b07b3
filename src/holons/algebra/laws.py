"""The laws that aggregates and lattices must obey, as a public check that anyone can run on samples.

    from holons.algebra import laws
    laws.check(MyAggregate(), [rows_of([3, 1, 2]), rows_of([5], partition=1)])

`check` takes an aggregate and batches of rows, or a lattice and sample states; the first law that does not hold raises
`LawBroken`, naming the law, the subject and the witnesses. States are compared by their canonical bytes: that is how
replicas compare them. Every law is also a function of its own.

Passing proves nothing, of course: samples should hold what is difficult (NaN, ties, extremes, empty batches, several
partitions). A broken law found in use belongs into the samples.

>>> from holons.algebra import GCounter, rows_of
>>> check(GCounter(), [rows_of([3, 1, 2]), rows_of([5], partition=1)])
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NoReturn, TypeVar, cast

import cloudpickle
import numpy as np

from holons import codec
from holons.algebra.aggregate import (
    Aggregate,
    IdempotentAggregate,
    IntArray,
    Lattice,
    State,
    concat,
    pick,
    place,
    size,
    take,
)
from holons.algebra.groups import Groups
from holons.algebra.lattice_laws import Law, broken, check_lattice, check_order
from holons.algebra.rows import Masked, Rows

__all__ = ["Law", "check", "check_aggregate", "check_lattice"]

L = TypeVar("L")

_SAMPLES_MAX: Final = 6
"""Laws over three states look at all triples of this many samples."""

_LATTICE_SAMPLES_MAX: Final = 4

_SINGLES_MAX: Final = 24
"""Rows of a batch that are also folded one by one."""


def check(subject: Aggregate[object] | Lattice[L], samples: Sequence[Rows] | Sequence[L]) -> None:
    """All laws of an aggregate, on batches of rows; or of a lattice, on states. Raises `LawBroken`."""
    if isinstance(subject, Aggregate):
        check_aggregate(subject, cast("Sequence[Rows]", samples))
    else:
        check_lattice(subject, cast("Sequence[L]", samples))


def check_aggregate(aggregate: Aggregate[object], batches: Sequence[Rows]) -> None:
    """All laws of an aggregate. If it claims to be idempotent, also those of a lattice, on its one-group states."""
    states = sample_states(aggregate, batches)
    zero_is_neutral(aggregate, states)
    merge_is_commutative(aggregate, states)
    merge_is_associative(aggregate, states)
    codec_is_canonical(aggregate, states)
    groups_are_independent(aggregate, states)
    values_agree(aggregate, states)
    if aggregate.invertible:
        subtract_undoes_merge(aggregate, states)
    folds_ignore_cuts(aggregate, batches)
    folds_ignore_order(aggregate, batches)
    folds_agree_with_single_rows(aggregate, batches)
    description_travels(aggregate, states)
    if aggregate.idempotent:
        merge_is_idempotent(aggregate, states)
        join_is_merge(cast("IdempotentAggregate[object]", aggregate), states)


def sample_states(aggregate: Aggregate[object], batches: Sequence[Rows]) -> State:
    """Some states of one group each, as one state: nothing, each of the first batches, and a merge of two."""
    folds = [_fold_all(aggregate, rows) for rows in batches]
    states = [aggregate.zero(1), *folds[: _SAMPLES_MAX - 2]]
    if len(folds) > 1:
        states.append(aggregate.merge(folds[0], folds[-1]))
    return concat(states)


# --- folding --------------------------------------------------------------------------------------------------------


def folds_ignore_cuts(aggregate: Aggregate[object], batches: Sequence[Rows]) -> None:
    """Delta equivalence: fold(A + B) = merge(fold(A), fold(B)), wherever the batch is cut (invariant: exact folds)."""
    for rows in batches:
        whole = _fold_all(aggregate, rows)
        for cut in sorted({0, 1, rows.count // 3, rows.count // 2, rows.count - 1, rows.count}):
            if not 0 <= cut <= rows.count:
                continue
            first, rest = (_fold_all(aggregate, part) for part in _cut(rows, cut))
            _compare(aggregate, Law.CUTS, whole, aggregate.merge(first, rest), rows=rows, cut=cut)


def folds_ignore_order(aggregate: Aggregate[object], batches: Sequence[Rows]) -> None:
    """The rows of a batch in any order give the same state."""
    for rows in batches:
        whole = _fold_all(aggregate, rows)
        for name, order in _orders(rows.count):
            _compare(aggregate, Law.ORDER_OF_ROWS, whole, _fold_all(aggregate, rows.take(order)), rows=rows, order=name)


def folds_agree_with_single_rows(aggregate: Aggregate[object], batches: Sequence[Rows]) -> None:
    """A vectorised fold over many groups, runs or scattered, is the merge of the rows folded one by one."""
    for rows in batches:
        some = rows.take(np.arange(min(rows.count, _SINGLES_MAX)))
        singles = [_fold_all(aggregate, some.take(np.array([row]))) for row in range(some.count)]
        for name, groups in _groupings(some.count):
            folded = _fold(aggregate, groups, some)
            if size(folded) != groups.n:
                _fail(aggregate, Law.SINGLE_ROWS, f"{size(folded)} states for {groups.n} groups", rows=rows)
            ids = groups.ids()
            for group in range(groups.n):
                expected = aggregate.zero(1)
                for row in np.flatnonzero(ids == group).tolist():
                    expected = aggregate.merge(expected, singles[row])
                _compare(
                    aggregate,
                    Law.SINGLE_ROWS,
                    expected,
                    pick(folded, group),
                    rows=some,
                    groups=name,
                    ids=ids,
                    group=group,
                )


# --- merging: `states` holds the samples as groups, and laws over pairs and triples are checked all at once -----------


def zero_is_neutral(aggregate: Aggregate[object], states: State) -> None:
    """Merging nothing, from either side, changes nothing."""
    zero = aggregate.zero(size(states))
    _compare(aggregate, Law.NEUTRAL, states, _merge(aggregate, states, zero), a=states)
    _compare(aggregate, Law.NEUTRAL, states, _merge(aggregate, zero, states), a=states)


def merge_is_commutative(aggregate: Aggregate[object], states: State) -> None:
    """merge(a, b) = merge(b, a)."""
    a, b = _tuples(states, 2)
    _compare(aggregate, Law.COMMUTATIVE, _merge(aggregate, a, b), _merge(aggregate, b, a), a=a, b=b)


def merge_is_associative(aggregate: Aggregate[object], states: State) -> None:
    """merge(merge(a, b), c) = merge(a, merge(b, c))."""
    a, b, c = _tuples(states, 3)
    left = _merge(aggregate, _merge(aggregate, a, b), c)
    right = _merge(aggregate, a, _merge(aggregate, b, c))
    _compare(aggregate, Law.ASSOCIATIVE, left, right, a=a, b=b, c=c)


def merge_is_idempotent(aggregate: Aggregate[object], states: State) -> None:
    """merge(a, a) = a, and merge(merge(a, b), b) = merge(a, b)."""
    _compare(aggregate, Law.IDEMPOTENT, states, _merge(aggregate, states, states), a=states)
    a, b = _tuples(states, 2)
    both = _merge(aggregate, a, b)
    _compare(aggregate, Law.IDEMPOTENT, both, _merge(aggregate, both, b), a=a, b=b)


def join_is_merge(aggregate: IdempotentAggregate[object], states: State) -> None:
    """As a lattice of one-group states: the bottom is zero, the join is the merge, and the order agrees with it."""
    _compare(aggregate, Law.JOIN, aggregate.zero(1), aggregate.bottom())
    some = [pick(states, group) for group in range(min(size(states), _LATTICE_SAMPLES_MAX))]
    for a, b in product(some, repeat=2):
        _compare(aggregate, Law.JOIN, aggregate.merge(a, b), aggregate.join(a, b).state, a=a, b=b)
    check_order(aggregate, some)


def subtract_undoes_merge(aggregate: Aggregate[object], states: State) -> None:
    """subtract(merge(a, b), b) = a, to the byte."""
    a, b = _tuples(states, 2)
    both = _merge(aggregate, a, b)
    before = _snapshot(both), _snapshot(b)
    undone = aggregate.subtract(both, b)
    if before != (_snapshot(both), _snapshot(b)):
        _fail(aggregate, Law.INPUTS_UNTOUCHED, "subtract changed its arguments", a=a, b=b)
    _compare(aggregate, Law.SUBTRACT, a, undone, a=a, b=b)


# --- states ---------------------------------------------------------------------------------------------------------


def codec_is_canonical(aggregate: Aggregate[object], states: State) -> None:
    """Bytes come back as the state they were made of, also in use; and equal states have equal bytes."""
    for group in range(size(states)):
        state = pick(states, group)
        data = aggregate.encode(state)
        restored = aggregate.decode(data)
        if _snapshot(restored) != _snapshot(state):
            _fail(aggregate, Law.LOSSLESS, "decoding gives another state than was encoded", a=state, restored=restored)
        if aggregate.encode(restored) != data:
            _fail(aggregate, Law.CANONICAL, "a state has other bytes after decoding", a=state)
        zero = aggregate.zero(1)
        _compare(aggregate, Law.LOSSLESS, _merge(aggregate, state, zero), _merge(aggregate, restored, zero), a=state)
    data = aggregate.encode(states)
    if aggregate.encode(aggregate.decode(data)) != data:
        _fail(aggregate, Law.CANONICAL, "a state of several groups has other bytes after decoding", a=states)


def groups_are_independent(aggregate: Aggregate[object], states: State) -> None:
    """A state is nothing but its groups: take, pick, concat and place commute with merging, and zero stays zero."""
    n = size(states)
    backwards: IntArray = np.arange(n)[::-1].copy()
    other = take(states, backwards)
    merged = _merge(aggregate, states, other)
    one_by_one = concat([aggregate.merge(pick(states, group), pick(other, group)) for group in range(n)])
    _compare(aggregate, Law.GROUPS, one_by_one, merged, a=states, b=other)
    turned = _merge(aggregate, take(states, backwards), take(other, backwards))
    _compare(aggregate, Law.GROUPS, take(merged, backwards), turned, a=states, b=other)
    spread: IntArray = np.arange(n) * 2
    placed = place(aggregate.zero(2 * n), spread, states)
    _compare(aggregate, Law.GROUPS, states, take(placed, spread), a=states)
    _compare(aggregate, Law.GROUPS, aggregate.zero(n), take(placed, spread + 1), a=states)
    _compare(aggregate, Law.GROUPS, concat([aggregate.zero(n)] * 2), aggregate.zero(2 * n))
    if size(aggregate.zero(0)) != 0 or size(aggregate.merge(aggregate.zero(0), aggregate.zero(0))) != 0:
        _fail(aggregate, Law.GROUPS, "no groups at all are not a state of size 0")


def values_agree(aggregate: Aggregate[object], states: State) -> None:
    """`values` is `value` of every group; and `touched`, where it tells, is true exactly for groups with rows."""
    column = aggregate.values(states)
    apart = [aggregate.value(states, group) for group in range(size(states))]
    if [repr(_plain(value)) for value in column.tolist()] != [repr(_plain(value)) for value in apart]:
        _fail(aggregate, Law.VALUES, f"values gives {column.tolist()}, value gives {apart}", a=states)
    touched = aggregate.touched(states)
    if touched is not None:
        zero = aggregate.encode(aggregate.zero(1))
        filled = [aggregate.encode(pick(states, group)) != zero for group in range(size(states))]
        if touched.tolist() != filled:
            _fail(aggregate, Law.VALUES, f"touched says {touched.tolist()}, the states say {filled}", a=states)


def description_travels(aggregate: Aggregate[object], states: State) -> None:
    """An aggregate can be pickled, and its copy is equal and does the same."""
    try:
        cloudpickle.dumps(aggregate)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        _fail(aggregate, Law.TRAVELS, f"cannot be pickled: {error}")
    twin = copy.deepcopy(aggregate)
    if twin != aggregate or twin.encode(states) != aggregate.encode(states):
        _fail(aggregate, Law.TRAVELS, "a copy of the aggregate is not equal to it")


# --- how it is done -------------------------------------------------------------------------------------------------


def _fold_all(aggregate: Aggregate[object], rows: Rows) -> State:
    return _fold(aggregate, Groups.single(rows.count), rows)


def _fold(aggregate: Aggregate[object], groups: Groups, rows: Rows) -> State:
    """The fold, after making sure that the rows are still what they were."""
    mine = rows.take(np.arange(rows.count))
    folded = aggregate.fold(groups, mine)
    if _snapshot((mine.element, mine.ts)) != _snapshot((rows.element, rows.ts)):
        _fail(aggregate, Law.INPUTS_UNTOUCHED, "fold changed its rows", rows=rows, changed=mine)
    return folded


def _merge(aggregate: Aggregate[object], a: State, b: State) -> State:
    """The merge, after making sure that the arguments are still what they were."""
    before = _snapshot(a), _snapshot(b)
    merged = aggregate.merge(a, b)
    if before != (_snapshot(a), _snapshot(b)):
        _fail(aggregate, Law.INPUTS_UNTOUCHED, "merge changed its arguments", a=a, b=b)
    return merged


def _compare(aggregate: Aggregate[object], law: Law, expected: State, actual: State, **witnesses: object) -> None:
    """Both states have the same bytes, or the law is broken: the codec's, if only the aggregate's own bytes differ."""
    if aggregate.encode(expected) == aggregate.encode(actual):
        return
    if _snapshot(expected) == _snapshot(actual):
        _fail(
            aggregate, Law.CANONICAL, "one state, reached in two ways, has different bytes", state=expected, **witnesses
        )
    n = size(expected)
    if n == size(actual) and n > 1:  # show only the first group that differs
        pairs = ((pick(expected, group), pick(actual, group)) for group in range(n))
        at = next((g for g, (a, b) in enumerate(pairs) if aggregate.encode(a) != aggregate.encode(b)), 0)
        expected, actual = pick(expected, at), pick(actual, at)
        states = {name: witness for name, witness in witnesses.items() if isinstance(witness, tuple)}
        witnesses |= {name: pick(state, at) for name, state in states.items() if size(state) == n}
    _fail(aggregate, law, "two states should be equal", expected=expected, actual=actual, **witnesses)


def _fail(aggregate: Aggregate[object], law: Law, message: str, **witnesses: object) -> NoReturn:
    broken(law, aggregate.describe(), message, **witnesses)


def _tuples(states: State, width: int) -> list[State]:
    """All combinations of `width` samples: as many states, whose groups line up."""
    chosen = np.array(list(product(range(size(states)), repeat=width)), dtype=np.int64).reshape(-1, width)
    return [take(states, chosen[:, place]) for place in range(width)]


def _cut(rows: Rows, cut: int) -> tuple[Rows, Rows]:
    return rows.take(np.arange(cut)), rows.take(np.arange(cut, rows.count))


def _orders(count: int) -> Iterator[tuple[str, IntArray]]:
    order = np.arange(count)
    yield "reversed", order[::-1].copy()
    yield "odd rows first", np.concatenate((order[1::2], order[::2]))
    yield "second half first", np.roll(order, count // 2)


def _groupings(count: int) -> Iterator[tuple[str, Groups]]:
    """Rows in groups: scattered, some groups empty; in runs; each by itself."""
    order = np.arange(count)
    yield "scattered", Groups.scatter((order * 7 + 1) % 4 + (order % 3 == 0), 6)
    yield "one", Groups.single(count)
    if count:
        yield "runs", Groups.by_label(order // 3)[1]
        yield "single rows", Groups.by_label(order)[1]


def _snapshot(value: object) -> bytes:
    """Bytes of a state or an element by our own codec, whatever the aggregate thinks its bytes are."""
    return codec.encode(_plain(value))


def _plain(value: object) -> object:
    """`value` without what the codec does not know: polars columns as lists, scalars as Python's."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_plain(part) for part in value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, Masked):
        return _plain((value.part, value.present))
    if isinstance(value, np.generic):
        return value.item()
    to_list: Callable[[], object] | None = getattr(value, "to_list", None)
    return to_list() if to_list is not None else value
