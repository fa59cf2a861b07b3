"""Cells: laid out flat and cut again."""

import numpy as np
import pytest
from tests.unit.algebra.rows_by_hand import folded

from holons import codec
from holons.algebra import Groups, GSet
from holons.algebra.cells import CellTable, flatten, rows_by_group, split
from holons.errors import BadElement


def test_flatten_and_split_are_inverse():
    cells = codec.object_array([(), (np.array([1, 2]),), (), (np.array([3]),)])
    table = flatten(cells)
    assert table.ids.tolist() == [1, 1, 3]
    assert codec.encode(split(table, 4)) == codec.encode(cells)


def test_no_cells_at_all():
    nothing = codec.object_array([(), ()])
    assert flatten(nothing, nothing).columns == ()
    assert split(CellTable(np.zeros(0, dtype=np.int64), ()), 2).tolist() == [(), ()]


def test_a_group_does_not_keep_the_others_in_memory():
    cells = split(CellTable(np.array([0, 1, 1]), (np.array([7, 8, 9]),)), 2)
    assert cells[1][0].base is None


def test_rows_by_group_are_slices_or_positions():
    assert rows_by_group(Groups.by_label(np.array([4, 4, 9]))[1]) == [slice(0, 2), slice(2, 3)]
    scattered = rows_by_group(Groups.scatter(np.array([2, 0, 2]), 3))
    assert [part.tolist() for part in scattered] == [[1], [], [0, 2]]


def test_integers_and_strings_never_meet():
    seen = GSet()
    with pytest.raises(BadElement, match="different types"):
        seen.merge(folded(seen, [1]), folded(seen, ["a"]))


def test_nothing_goes_with_both_kinds():
    seen = GSet()
    for element in ([1], ["a"]):
        state = folded(seen, element)
        assert seen.encode(seen.merge(seen.zero(1), state)) == seen.encode(state)
