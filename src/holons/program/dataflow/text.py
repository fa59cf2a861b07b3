"""A pipeline for people: as a tree of words, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Final, TypeAlias

from holons.program.dataflow.plan import Aggregate, Join, Node, Sink, nodes

if TYPE_CHECKING:
    from holons.program.dataflow.api import Flow
    from holons.program.dataflow.pipeline import Pipeline

_PLACES: Final = {
    "rows": "each partition, its own rows",
    "local": "each partition, its own part",
    "spread": "each partition, its share of the keys",
    "gathered": "partition 0, for all",
}
_BOX: Final = (260, 78)
_GAP: Final = (48, 22)
_MARGIN: Final = 10
_CHARS: Final = 35
"""So many fit into a line of a box."""
_LINES: Final = 3

Cell: TypeAlias = "Node | Sink | tuple[Node, int]"
"""A box; or a free row in a column, through which the arrows from a node pass that end in a later one."""


def explain(flow: Flow) -> str:
    """The tree of each sink, then the state that the program keeps."""
    lines: list[str] = []
    told: set[int] = set()
    for sink in _sinks(flow):
        lines += [f"to {sink.channel}", *_tree(sink.node, "", told)]
    lines.append("")
    lines.append("state")
    for handle in flow.layout.handles:
        shared = "replicated" if handle.shared else "of each partition"
        lines.append(f"  {handle.name}: {handle.aggregate.describe()}, {handle.window}, stage {handle.stage}, {shared}")
    if not flow.layout.handles:
        lines.append("  none: rows go straight through")
    return "\n".join(lines)


def _tree(node: Node, indent: str, told: set[int]) -> Iterator[str]:
    """What several sinks share is worked out once, and told once."""
    if node.inputs and id(node) in told:
        yield f"{indent}└ {node}   [as above]"
        return
    told.add(id(node))
    yield f"{indent}└ {node}   [{_where(node)}; {node.line}]"
    for one in node.inputs:
        yield from _tree(one, indent + "  ", told)


def _where(node: Node) -> str:
    stage = "" if node.kind is None else f"stage {node.kind.stage}, "
    return f"{stage}{_PLACES[node.place]}"


def diagram(flow: Flow) -> str:
    """Boxes and arrows from left to right: what is drawn in a column needs only what is left of it."""
    sinks = _sinks(flow)
    items: list[Node | Sink] = [*nodes(*(sink.node for sink in sinks)), *sinks]
    columns = _columns(items)
    routes = [
        (one, *((one, column) for column in range(columns[one] + 1, columns[item])), item)
        for item in items
        for one in ((item.node,) if isinstance(item, Sink) else item.inputs)
    ]
    spots, height = _spots(columns, routes)
    boxes = [_box(item, *spots[item]) for item in items]
    arrows = [_arrow([spots[one] for one in route]) for route in routes]
    width = (max(columns.values()) + 1) * (_BOX[0] + _GAP[0]) - _GAP[0] + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" role="img"><title>{escape(flow.name)}</title>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>{"".join(arrows)}{"".join(boxes)}</svg>'
    )


def _columns(items: Sequence[Node | Sink]) -> dict[Cell, int]:
    """The column of each box: right of all that it needs, and the sinks in the last one."""
    columns: dict[Cell, int] = {}
    for item in items:
        if not isinstance(item, Sink):
            columns[item] = 1 + max((columns[one] for one in item.inputs), default=-1)
    last = 1 + max(columns.values())
    return columns | {item: last for item in items if isinstance(item, Sink)}


def _spots(columns: Mapping[Cell, int], routes: Sequence[Sequence[Cell]]) -> tuple[dict[Cell, tuple[int, int]], int]:
    """The left end of the middle line of each cell, and how high the picture is.

    No two cells of a column overlap, and between columns there are only arrows: so none touches a box on its way.
    """
    before: dict[Cell, list[Cell]] = {cell: [] for cell in columns}
    for route in routes:
        for left, right in pairwise(route):
            before.setdefault(right, []).append(left)
    spots: dict[Cell, tuple[int, int]] = {}
    lowest = 0
    for column in range(max(columns.values()) + 1):
        wished = {
            cell: sum(spots[one][1] for one in lefts) // max(1, len(lefts))
            for cell, lefts in before.items()
            if column == (cell[1] if isinstance(cell, tuple) else columns[cell])
        }
        free = _MARGIN
        for cell in sorted(wished, key=wished.__getitem__):
            half = 0 if isinstance(cell, tuple) else _BOX[1] // 2
            middle = max(free + half, wished[cell])
            spots[cell] = column * (_BOX[0] + _GAP[0]) + _MARGIN, middle
            free = middle + half + _GAP[1]
        lowest = max(lowest, free)
    return spots, lowest - _GAP[1] + _MARGIN


def _box(item: Node | Sink, x: int, middle: int) -> str:
    y = middle - _BOX[1] // 2
    windowed = isinstance(item, Aggregate | Join)
    fill = "#e7f0e2" if isinstance(item, Sink) else "#dde8f7" if windowed else "#f4f4f1"
    text = f"to {item.channel}" if isinstance(item, Sink) else one_line(item)
    lines = wrap(text, _CHARS, max_lines=_LINES, placeholder=" …")
    shown = "".join(f'<tspan x="{x + 10}" dy="15">{escape(line)}</tspan>' for line in lines)
    below = "" if isinstance(item, Sink) else _where(item)
    return (
        f'<g><title>{escape(text)}</title><rect x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" '
        f'fill="{fill}" stroke="#889"/><text y="{y + 4}" font-size="12" fill="#222">{shown}</text>'
        f'<text x="{x + 10}" y="{y + _BOX[1] - 9}" font-size="10" fill="#667">{escape(below)}</text></g>'
    )


def _arrow(spots: Sequence[tuple[int, int]]) -> str:
    """Bent between columns, and straight through a column that it only passes."""
    path = f"M{spots[0][0] + _BOX[0]} {spots[0][1]}"
    for (x1, y1), (x2, y2) in pairwise(spots):
        middle = x2 - _GAP[0] // 2
        path += f"H{x1 + _BOX[0]}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path d="{path}" fill="none" stroke="#667" stroke-width="1.4" marker-end="url(#tip)"/>'


def one_line(node: Node) -> str:
    """A step in words, without line breaks."""
    return "".join(c if c.isprintable() else " " for c in str(node))


def _sinks(flow: Flow) -> tuple[Sink, ...]:
    program: Pipeline = flow.program  # type: ignore[assignment]
    return program.sinks
