"""An aggregate out of functions: for what no other one does, without writing kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from holons import codec
from holons.algebra import laws
from holons.algebra.aggregate import Aggregate, State
from holons.algebra.cells import rows_by_group
from holons.algebra.groups import Groups
from holons.algebra.rows import Element, Rows, element_length, rows_of, take_element
from holons.errors import BadElement, BadInput

Plain: TypeAlias = Any
"""What a state is made of: what `codec` knows, e.g. numbers, strings, None, and tuples, sets and dictionaries of these."""
_SAMPLE_LEAST: Final = 4


@dataclass(frozen=True)
class Custom(Aggregate[Any]):
    """Three functions and how to read the result; see `custom`. A state is one plain value for each group."""

    start: Callable[[], Plain]
    add: Callable[[Plain, Any], Plain]
    both: Callable[[Plain, Plain], Plain]
    read: Callable[[Plain], Any]
    name: str = "custom"
    columns: int = 1
    """How many columns `add` is given."""
    examples: tuple[Any, ...] = ()
    """What is read of the sample, and of no rows: values of the same type are to be expected."""

    def zero(self, n: int) -> State:
        return (codec.object_array([self.start() for _ in range(n)]),)

    def fold(self, groups: Groups, rows: Rows) -> State:
        if rows.count == 0:
            return self.zero(groups.n)
        folded = []
        try:
            for members in rows_by_group(groups):
                index = np.arange(rows.count)[members]
                state = self.start()
                folded.append(
                    self.add(state, _columns(take_element(rows.element, index), len(index))) if len(index) else state
                )
        except Exception as error:
            hint = "it is called with zero() and a column, or a tuple of columns: are these as in the sample?"
            raise self._failed("fold", error, hint) from error
        return (codec.object_array(folded),)

    def merge(self, a: State, b: State) -> State:
        pairs = zip(a[0].tolist(), b[0].tolist(), strict=True)
        try:
            return (codec.object_array([self.both(left, right) for left, right in pairs]),)
        except Exception as error:
            hint = "it is called with two states, each of zero() or of fold(...)"
            raise self._failed("merge", error, hint) from error

    def value(self, state: State, group: int = 0) -> Any:  # noqa: ANN401
        try:
            return self.read(state[0][group])
        except Exception as error:
            hint = f"here for the state {state[0][group]!r}; it is also asked for that of no rows, zero()"
            raise self._failed("value", error, hint) from error

    def _failed(self, function: str, error: Exception, hint: str) -> BadElement:
        """Errors of the user's functions say which it was."""
        return BadElement(f"{self.name}: {function} raised {type(error).__name__}: {error}", hint=hint)

    def describe(self) -> str:
        return self.name


def custom(
    *,
    zero: Callable[[], Plain],
    fold: Callable[[Plain, Any], Plain],
    merge: Callable[[Plain, Plain], Plain],
    value: Callable[[Plain], Any] | None = None,
    sample: object,
    name: str = "custom",
) -> Aggregate[Any]:
    """An aggregate of your own: `zero()`, `fold(state, column)` for rows of a group, `merge(state, state)`, `value(state)`.

    `column` is a polars Series, or a tuple of them if several columns are given. States are plain values. `sample` is a
    column (or a tuple of columns) of typical elements, four or more: on it the laws are checked here and now, since an
    aggregate that depends on the order or the cut of its rows would give another answer with every run (`LawBroken`
    says which law).

    >>> product = custom(zero=lambda: 1, fold=lambda p, x: p * x.product(), merge=lambda p, q: p * q, sample=[2, 3, 5, 7])
    >>> product.value(product.fold(Groups.single(3), rows_of([2, 5, 7])))
    70
    """
    count = element_length(sample)
    if count is None or count < _SAMPLE_LEAST:
        raise BadInput(
            f"{name}: a sample of {'one element' if count is None else count} says little about the laws",
            hint=f"give {_SAMPLE_LEAST} elements or more, difficult ones: ties, extremes, what is empty",
        )
    aggregate = Custom(zero, fold, merge, value or _itself, name, len(sample) if isinstance(sample, tuple) else 1)
    rows, third = rows_of(sample), count // 3
    cuts = [rows.between(0, third), rows.between(third, 2 * third), rows.between(2 * third, rows.count), rows]
    laws.check_aggregate(aggregate, cuts)
    states = [aggregate.zero(1), *(aggregate.fold(Groups.single(part.count), part) for part in cuts)]
    return replace(aggregate, examples=tuple(aggregate.value(state) for state in states))


def _itself(state: Plain) -> Plain:
    return state


def _columns(element: Element, count: int) -> Any:  # noqa: ANN401
    """What the user's function gets: a Series for each column."""
    if isinstance(element, tuple):
        return tuple(_columns(part, count) for part in element)
    if isinstance(element, Mapping):
        return {name: _columns(part, count) for name, part in element.items()}
    if isinstance(element, np.ndarray | pl.Series):
        return pl.Series(element)
    return pl.Series([element]).new_from_index(0, count)
