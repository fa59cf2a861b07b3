"""Elements as users pass them to `insert`: with a key or without, one by one, and as columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import polars as pl

from holons.errors import BadElement
from holons.program.handles import NO_KEY
from holons.wcrdt import Handle


def keyed_element(handle: Handle, element: object, key: object) -> object:
    """Returns an element, with its key if every key has windows of its own; all rows without a key share one key."""
    if handle.window.keyed:
        return (0 if key is NO_KEY else key), element
    if key is not NO_KEY:
        raise BadElement(
            f"{handle.name} has no session windows, and a key was inserted",
            hint="for values by key use h.MergeMap(...) and insert((key, element), ts)",
        )
    return element


def by_kind(singles: list[tuple[object, int, int]], *, in_order: bool) -> Iterable[list[tuple[object, int, int]]]:
    """Groups elements by their types: all of one type, or as many as follow on each other."""
    if in_order:
        return (list(alike) for _, alike in itertools.groupby(singles, lambda single: _kind(single[0])))
    kinds: dict[object, list[tuple[object, int, int]]] = {}
    for single in singles:
        kinds.setdefault(_kind(single[0]), []).append(single)
    return kinds.values()


def _kind(element: object) -> object:
    """Returns the type of an element, part by part."""
    if isinstance(element, tuple):
        return tuple(map(_kind, element))
    if isinstance(element, dict):
        return tuple((name, _kind(part)) for name, part in element.items())
    return type(element)


def element_columns(elements: tuple[object, ...]) -> object:
    """Turns single elements into columns: a list of tuples becomes a tuple of lists."""
    first = elements[0]
    if isinstance(first, tuple):
        return tuple(element_columns(part) for part in zip(*elements, strict=True))
    if isinstance(first, dict):
        return {name: element_columns(tuple(element[name] for element in elements)) for name in first}  # type: ignore[index]
    return pl.Series(list(elements), strict=False)
