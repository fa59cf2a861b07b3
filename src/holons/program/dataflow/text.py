"""A pipeline for people, as a tree of words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holons.program.dataflow.plan import PlanNode

if TYPE_CHECKING:
    from holons.program.dataflow.api import Flow
    from holons.program.dataflow.pipeline import Pipeline

_PLACES: Final = {
    "rows": "each partition, its own rows",
    "local": "each partition, its own part",
    "spread": "each partition, its share of the keys",
    "gathered": "partition 0, for all",
}


def explain(flow: Flow) -> str:
    """Returns the tree of each sink, then the state that the program keeps."""
    lines: list[str] = []
    shown: set[int] = set()
    program: Pipeline = flow.program  # type: ignore[assignment]
    for sink in program.sinks:
        lines += [f"to {sink.channel}", *_tree(sink.node, "", shown)]
    lines.append("")
    lines.append("state")
    for handle in flow.layout.handles:
        shared = "replicated" if handle.shared else "of each partition"
        stage = 0 if handle.window.counted else handle.stage
        lines.append(f"  {handle.name}: {handle.aggregate.describe()}, {handle.window}, stage {stage}, {shared}")
    if not flow.layout.handles:
        lines.append("  none: rows go straight through")
    return "\n".join(lines)


def _tree(node: PlanNode, indent: str, shown: set[int]) -> Iterator[str]:
    """Yields a line for each step. What several sinks share is computed once, and shown once."""
    if node.inputs and id(node) in shown:
        yield f"{indent}└ {node}   [as above]"
        return
    shown.add(id(node))
    yield f"{indent}└ {node}   [{where_computed(node)}; {node.line}]"
    for before in node.inputs:
        yield from _tree(before, indent + "  ", shown)


def where_computed(node: PlanNode) -> str:
    """Returns in words who computes a step, and in which stage."""
    stage = "" if node.windows is None else f"stage {node.windows.stage}, "
    return f"{stage}{_PLACES[node.place]}"


def one_line(node: PlanNode) -> str:
    """Returns a step in words, without line breaks."""
    return "".join(c if c.isprintable() else " " for c in str(node))
