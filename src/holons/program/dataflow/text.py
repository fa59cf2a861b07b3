"""A pipeline for people: as a tree of words, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Final

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
_GAP: Final = (36, 22)
_CHARS: Final = 35
"""So many fit into a line of a box."""
_LINES: Final = 3


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
    every = list(nodes(*(sink.node for sink in sinks)))
    depth: dict[int, int] = {}
    for node in every:
        depth[id(node)] = 1 + max((depth[id(one)] for one in node.inputs), default=-1)
    last = max(depth.values(), default=0) + 1
    columns: dict[int, int] = {}
    spots: dict[int, tuple[int, int]] = {}
    boxes: list[str] = []
    items: list[Node | Sink] = [*every, *sinks]
    for item in items:
        column = last if isinstance(item, Sink) else depth[id(item)]
        row = columns.get(column, 0)
        columns[column] = row + 1
        spots[id(item)] = column * (_BOX[0] + _GAP[0]) + 10, row * (_BOX[1] + _GAP[1]) + 10
        boxes.append(_box(item, *spots[id(item)]))
    arrows = [
        _arrow(spots[id(one)], spots[id(item)])
        for item in items
        for one in ((item.node,) if isinstance(item, Sink) else item.inputs)
    ]
    width = (last + 1) * (_BOX[0] + _GAP[0]) - _GAP[0] + 20
    height = max(columns.values()) * (_BOX[1] + _GAP[1]) - _GAP[1] + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" role="img"><title>{escape(flow.name)}</title>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>{"".join(arrows)}{"".join(boxes)}</svg>'
    )


def _box(item: Node | Sink, x: int, y: int) -> str:
    windowed = isinstance(item, Aggregate | Join)
    fill = "#e7f0e2" if isinstance(item, Sink) else "#dde8f7" if windowed else "#f4f4f1"
    text = f"to {item.channel}" if isinstance(item, Sink) else "".join(c if c.isprintable() else " " for c in str(item))
    lines = wrap(text, _CHARS, max_lines=_LINES, placeholder=" …")
    shown = "".join(f'<tspan x="{x + 10}" dy="15">{escape(line)}</tspan>' for line in lines)
    below = "" if isinstance(item, Sink) else _where(item)
    return (
        f'<g><title>{escape(text)}</title><rect x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" '
        f'fill="{fill}" stroke="#889"/><text y="{y + 4}" font-size="12" fill="#222">{shown}</text>'
        f'<text x="{x + 10}" y="{y + _BOX[1] - 9}" font-size="10" fill="#667">{escape(below)}</text></g>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = (start[0] + _BOX[0], start[1] + _BOX[1] // 2), (end[0], end[1] + _BOX[1] // 2)
    middle = (x1 + x2) // 2
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path d="{path}" fill="none" stroke="#667" stroke-width="1.4" marker-end="url(#tip)"/>'


def _sinks(flow: Flow) -> tuple[Sink, ...]:
    program: Pipeline = flow.program  # type: ignore[assignment]
    return program.sinks
