"""Figures and tables as notebooks show them: plain HTML, whose colours are the notebook's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as html_escape

from holons.engines.status import Status, partitions_text, watermark_text
from holons.visible import visible

_STATES = {
    "starting": "#8a8f98",
    "running": "#2f6fdd",
    "finished": "#2e9e5b",
    "stopped": "#c08a1e",
    "failed": "#d0413b",
}
_CELL = "padding:.2em .9em .2em 0;border-bottom:1px solid rgba(128,128,128,.25);white-space:nowrap;"
_TEXT_MAX = 60


def escape(text: str) -> str:
    """Returns a text as HTML, and visible: lone surrogates cannot be written, marks of direction turn a page round."""
    return html_escape(visible(text))


def status(run: Status) -> str:
    """How far a run is: its figures, what it waits for, and its nodes."""
    nodes = [
        {
            "node": node.label,
            "process": str(node.process or ""),
            "partitions": partitions_text(node.partitions),
            "rows read": node.rows_read,
            "waiting": node.lag,
            "watermark": watermark_text(node.watermark),
        }
        for node in run.nodes
    ]
    waiting = f'<div style="opacity:.65">waits for {escape(str(run.waiting_for))}</div>' if run.waiting_for else ""
    return block(title(run.job, run.state), figures(run.figures()), waiting, table(nodes))


def block(*parts: str) -> str:
    """Parts, one below the other."""
    return f'<div style="display:grid;gap:.7em;justify-items:start;line-height:1.35">{"".join(parts)}</div>'


def title(name: str, state: str) -> str:
    """What it is, and how it is."""
    dot = f'<span style="color:{_STATES[state]}">●</span>'
    return f'<div><b style="font-size:1.1em">{escape(name)}</b>&ensp;{dot} {escape(state)}</div>'


def trouble(message: str) -> str:
    """What went wrong."""
    return f'<div style="color:{_STATES["failed"]};white-space:pre-wrap">{escape(message)}</div>'


def figures(values: Mapping[str, str]) -> str:
    """A row of figures, each above its name."""
    items = "".join(
        f'<div><div style="font-size:1.25em;font-variant-numeric:tabular-nums">{escape(value)}</div>'
        f'<div style="opacity:.65;font-size:.85em">{escape(name)}</div></div>'
        for name, value in values.items()
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:.4em 2em">{items}</div>'


def table(rows: Sequence[Mapping[str, object]], caption: str = "") -> str:
    """Rows below the names of their columns; numbers to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    right = {name for name in names if all(_number(row.get(name)) for row in rows)}
    heading = f'<div style="margin-bottom:.2em"><b>{escape(caption)}</b></div>' if caption else ""
    if not rows:
        return f"<div>{heading}</div>" if heading else ""
    head = "".join(_cell("th", name, name in right) for name in names)
    body = "".join(f"<tr>{''.join(_cell('td', row.get(name), name in right) for name in names)}</tr>" for row in rows)
    return (
        f'<div style="max-width:100%;overflow-x:auto">{heading}'
        f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums"><tr>{head}</tr>{body}</table></div>'
    )


def _number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(tag: str, value: object, right: bool) -> str:
    if isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, int) and tag == "td":
        text = f"{value:,}" if not isinstance(value, bool) else str(value)
    else:
        text = "" if value is None else str(value)
    text = text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"
    look = "font-weight:600;opacity:.75;" if tag == "th" else ""
    return f'<{tag} style="{_CELL}{look}text-align:{"right" if right else "left"}">{escape(text)}</{tag}>'
