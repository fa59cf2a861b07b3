"""Several aggregates over the same rows, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from holons.algebra.aggregate import Aggregate, IdempotentAggregate, Joined, State
from holons.algebra.groups import Groups
from holons.algebra.rows import Element, Masked, Rows, take_element
from holons.errors import BadElement, BadProgram


@dataclass(frozen=True, init=False)
class Product(IdempotentAggregate[dict[str, object]]):
    """Named aggregates that are folded, merged and read together: `Product(n=GCounter(), best=MaxRegister())`.

    Law: every field is what it would be alone, so the product is invertible (or idempotent) exactly if all are. The
    element is a mapping with an element for each field, or anything else, which all fields are given alike. Null in
    the element of one field: the row is not there, for that field.

    >>> from holons.algebra import GCounter, Groups, PNCounter, rows_of
    >>> both = Product(rows=GCounter(), change=PNCounter())
    >>> both.value(both.fold(Groups.single(2), rows_of({"rows": 1, "change": [5, -7]})))
    {'rows': 2, 'change': -2}
    """

    fields: tuple[tuple[str, Aggregate[object]], ...]
    widths: tuple[int, ...] = field(repr=False, compare=False)
    invertible: ClassVar[bool] = False

    def __init__(self, fields_: Mapping[str, Aggregate[object]] | None = None, /, **named: Aggregate[object]) -> None:
        fields = tuple({**(fields_ or {}), **named}.items())
        if not fields:
            raise BadProgram("a product of nothing", hint="name at least one aggregate: Product(n=GCounter())")
        members = [aggregate for _, aggregate in fields]
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "widths", tuple(len(aggregate.zero(0)) for aggregate in members))
        object.__setattr__(self, "invertible", all(aggregate.invertible for aggregate in members))
        object.__setattr__(self, "idempotent", all(aggregate.idempotent for aggregate in members))

    def zero(self, n: int) -> State:
        return tuple(column for _, aggregate in self.fields for column in aggregate.zero(n))

    def fold(self, groups: Groups, rows: Rows) -> State:
        elements = self._elements(rows.element)
        return tuple(
            column
            for name, aggregate in self.fields
            for column in aggregate.fold(*_present(groups, rows.with_element(elements[name])))
        )

    def merge(self, a: State, b: State) -> State:
        return tuple(column for field, left, right in self._pairs(a, b) for column in field.merge(left, right))

    def subtract(self, a: State, b: State) -> State:
        return tuple(column for field, left, right in self._pairs(a, b) for column in field.subtract(left, right))

    def value(self, state: State, group: int = 0) -> dict[str, object]:
        return {name: aggregate.value(part, group) for name, aggregate, part in self.parts(state)}

    def columns(self, state: State) -> dict[str, npt.NDArray[np.generic]]:
        """What a user reads for every group, a column for each field."""
        return {name: aggregate.values(part) for name, aggregate, part in self.parts(state)}

    def join(self, a: State, b: State) -> Joined[State]:
        if not self.idempotent:
            raise BadElement(f"{self.describe()} is no lattice by itself", hint="wrap it: `slots.Slots(aggregate)`")
        return super().join(a, b)

    def describe(self) -> str:
        return f"Product({', '.join(f'{name}={aggregate.describe()}' for name, aggregate in self.fields)})"

    def touched_by(self, rows: Rows, state: State) -> npt.NDArray[np.bool_] | None:
        """Which groups have some of the rows that were folded; None if no field tells that every row has."""
        masked = {name for name, element in self._elements(rows.element).items() if isinstance(element, Masked)}
        touched = (aggregate.touched(part) for name, aggregate, part in self.parts(state) if name not in masked)
        return next((groups for groups in touched if groups is not None), None)

    def parts(self, state: State) -> Iterator[tuple[str, Aggregate[object], State]]:
        """Each field's name, aggregate and own state."""
        first = 0
        for (name, aggregate), width in zip(self.fields, self.widths, strict=True):
            yield name, aggregate, state[first : first + width]
            first += width

    def _pairs(self, a: State, b: State) -> Iterator[tuple[Aggregate[object], State, State]]:
        for (_, aggregate, left), (_, _, right) in zip(self.parts(a), self.parts(b), strict=True):
            yield aggregate, left, right

    def _elements(self, element: Element) -> Mapping[str, Element]:
        if not isinstance(element, Mapping):
            return dict.fromkeys((name for name, _ in self.fields), element)
        wanted = {name for name, _ in self.fields}
        if set(element) != wanted:
            raise BadElement(
                f"a product of {', '.join(sorted(wanted))} was given {', '.join(sorted(element)) or 'nothing'}",
                hint="insert a mapping with exactly the fields of the product",
            )
        return element


def _present(groups: Groups, rows: Rows) -> tuple[Groups, Rows]:
    """Without the rows that a field does not have."""
    if not isinstance(rows.element, Masked):
        return groups, rows
    chosen = np.flatnonzero(rows.element.present)
    part = take_element(rows.element.part, chosen)
    return groups.take(chosen), Rows(part, rows.ts[chosen], rows.origin.take(chosen))
