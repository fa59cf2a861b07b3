"""Figures of live runs: how late windows were, how much was read, who ran what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from holons_bench.chronicle import Chronicle, Happened, Spell, short
from holons_bench.report import plotly

COLOURS: Final = (
    "#2563eb", "#ea8a0c", "#0f9d76", "#8b5cf6", "#d6336c", "#0891b2", "#84a11d", "#a16207", "#475569", "#e76f51",
)  # fmt: skip
_FAULT: Final = "#c02626"
_BACK: Final = "#6b7785"
_INK: Final = "#1f2733"
_GRID: Final = "#e8eaee"
_LABEL_WIDTH: Final = 0.14  # of a figure's
_LABEL_HEIGHT: Final = 16
_WORDS: Final = {"killed": "killed", "started": "is up", "paused": "stopped", "resumed": "goes on"}


def latency(run: Chronicle) -> Any:  # noqa: ANN401 - a plotly figure
    """Draws how long after its end each window's result could be read, over time, and what was done to nodes."""
    figure = _figure("Latency: from a window's end to its result", "seconds since the load began", "milliseconds")
    _add_latency(figure, run, COLOURS[0])
    _mark(figure, run)
    return figure


def throughput(run: Chronicle) -> Any:  # noqa: ANN401
    """Draws how many rows all nodes together read, per second."""
    figure = _figure("Bids read by all nodes", "seconds since the load began", "bids per second")
    at_s, rate = run.throughput()
    area = {"x": at_s, "y": rate, "mode": "lines", "line": {"color": COLOURS[2], "width": 2}, "fill": "tozeroy"}
    figure.add_scatter(
        **area, fillcolor="rgba(15,157,118,0.12)", hovertemplate="%{x:.1f} s: %{y:,.0f}/s<extra></extra>"
    )
    _mark(figure, run)
    return figure


def owners(run: Chronicle) -> Any:  # noqa: ANN401
    """Draws who ran which partition when."""
    spells = [spell for spell in run.spells() if spell.to_s > 0]
    nodes = sorted({heard.node for heard in run.heard})
    partitions = sorted({spell.partition for spell in spells})
    figure = _figure("Who ran which partition", "seconds since the load began", "", height=190 + 40 * len(partitions))
    for number, node in enumerate(nodes):
        _add_spells(figure, [spell for spell in spells if spell.node == node], node, COLOURS[number % len(COLOURS)])
    _mark(figure, run)
    figure.update_layout(barmode="overlay", bargap=0.35, showlegend=True, legend=_LEGEND, margin={"b": 90})
    figure.update_yaxes(autorange="reversed", categoryorder="array", categoryarray=[_partition(p) for p in partitions])
    return figure


def bars(cases: Sequence[str], rates: Mapping[str, Sequence[float]]) -> Any:  # noqa: ANN401
    """Draws the events a second of several systems side by side, on a logarithmic scale."""
    figure = _figure("Events a second, median", "", "events per second", height=420)
    for number, (system, values) in enumerate(rates.items()):
        texts = [f"{value / 1e6:.2g} M" for value in values]
        figure.add_bar(
            x=list(cases), y=list(values), name=system, marker_color=COLOURS[number], text=texts, textposition="outside"
        )
    figure.update_layout(barmode="group", showlegend=True, legend=_LEGEND, margin={"b": 90})
    every = np.log10([value for values in rates.values() for value in values])
    figure.update_yaxes(type="log", dtick=1, range=[np.floor(every.min()) - 1, every.max() + 0.3])
    return figure


def lines(title: str, unit: str, values: Mapping[str, Sequence[tuple[str, float]]]) -> Any:  # noqa: ANN401
    """Draws (point, value) of several systems as a line each, or as bars where there is one point."""
    figure = _figure(title, "", unit, height=380)
    for number, (system, points) in enumerate(values.items()):
        at, heights = [point for point, _ in points], [value for _, value in points]
        colour = COLOURS[number % len(COLOURS)]
        if len(points) == 1:
            figure.add_bar(x=[system], y=heights, name=system, marker_color=colour)
        else:
            figure.add_scatter(x=at, y=heights, name=system, mode="lines+markers", line={"color": colour, "width": 2})
    figure.update_layout(showlegend=True, legend=_LEGEND, margin={"b": 90})
    figure.update_xaxes(type="category")
    return figure


def quantiles(latencies_ms: Mapping[str, Sequence[tuple[float, float]]]) -> Any:  # noqa: ANN401
    """Draws (share of results, latency) by system: the tail of a histogram, stretched as HDR histograms are drawn."""
    figure = _figure("Latency by percentile", "share of results that are faster", "milliseconds", height=420)
    ticks = [0.5, 0.9, 0.99, 0.999, 0.9999]
    for number, (system, points) in enumerate(latencies_ms.items()):
        x, y = [-np.log10(1 - min(share, 0.99999)) for share, _ in points], [late for _, late in points]
        figure.add_scatter(
            x=x, y=y, name=system, mode="lines", line={"color": COLOURS[number], "width": 2, "shape": "hv"}
        )
    figure.update_xaxes(
        tickvals=[-np.log10(1 - tick) for tick in ticks], ticktext=[f"{100 * tick:g} %" for tick in ticks]
    )
    figure.update_layout(showlegend=True, legend=_LEGEND, margin={"b": 90})
    figure.update_yaxes(type="log", tickvals=[digit * 10**power for power in range(-1, 5) for digit in (1, 2, 5)])
    return figure


def latency_grid(runs: Mapping[str, Mapping[str, Chronicle]]) -> Any:  # noqa: ANN401
    """Draws the latency curves of several scenarios, one below the other, and side by side in several ways to run them."""
    ways = list(dict.fromkeys(way for row in runs.values() for way in row))
    titles = [f"{scenario}: {way}" for scenario in runs for way in ways]
    figure = plotly("subplots").make_subplots(
        len(runs), len(ways), shared_xaxes="all", shared_yaxes="all", subplot_titles=titles,
        vertical_spacing=0.35 / max(len(runs), 2), horizontal_spacing=0.04,
    )  # fmt: skip
    for row, (_, chronicles) in enumerate(runs.items(), start=1):
        for column, way in enumerate(ways, start=1):
            if way in chronicles:
                place = {"row": row, "col": column}
                _add_latency(figure, chronicles[way], COLOURS[column - 1], width=1.4, **place)
                for event in chronicles[way].happened:
                    hurts = event.what in ("killed", "paused")
                    line = {"color": _FAULT if hurts else _BACK, "width": 1, "dash": "dot"}
                    figure.add_vline(event.at_s, line=line, **place)
    _dress(figure, height=150 + 190 * len(runs))
    figure.update_annotations(font={"size": 13})
    figure.update_yaxes(type="log")  # from milliseconds to tens of seconds
    figure.update_yaxes(title_text="ms", col=1)
    figure.update_xaxes(title_text="seconds since the load began", row=len(runs))
    return figure


_LEGEND: Final = {"orientation": "h", "yref": "container", "y": 0.02, "yanchor": "bottom", "x": 0}


def _add_latency(figure: Any, run: Chronicle, colour: str, width: float = 2.0, **place: int) -> None:  # noqa: ANN401
    few = len(run.due_s) <= 120
    figure.add_scatter(
        x=run.due_s,
        y=1e3 * run.late_s,
        mode="lines+markers" if few else "lines",
        line={"color": colour, "width": width},
        marker={"size": 6},
        showlegend=False,
        hovertemplate="window that ended at %{x:.2f} s: %{y:.1f} ms<extra></extra>",
        **place,
    )


def _add_spells(figure: Any, spells: Sequence[Spell], node: str, colour: str) -> None:  # noqa: ANN401
    starts = np.array([max(spell.from_s, 0.0) for spell in spells])
    figure.add_bar(
        x=np.array([spell.to_s for spell in spells]) - starts,
        base=starts,
        y=[_partition(spell.partition) for spell in spells],
        orientation="h",
        name=short(node),
        marker={"color": colour, "line": {"width": 0}},
        opacity=0.85,
        hovertemplate=f"{short(node)}: %{{base:.2f}} s, for %{{x:.2f}} s<extra></extra>",
    )


def _partition(number: int) -> str:
    return f"partition {number}"


def _mark(figure: Any, run: Chronicle) -> None:  # noqa: ANN401
    """Marks what was done to nodes, and when new ones were up; all figures of a run over the same time."""
    up = [Happened(at_s, "started", node) for node, at_s in run.came_up_s().items() if at_s > 0]
    end_s = max(float(run.readable_s.max()), float(run.due_s[-1]))
    marks = sorted([*(event for event in run.happened if event.what != "started"), *up], key=lambda event: event.at_s)
    for event, (anchor, level) in zip(marks, _places([mark.at_s / end_s for mark in marks]), strict=True):
        colour = _FAULT if event.what in ("killed", "paused") else _BACK
        figure.add_vline(
            event.at_s,
            line={"color": colour, "width": 1.5, "dash": "dash"},
            annotation={"text": f"{short(event.node)} {_WORDS[event.what]}", "font": {"color": colour, "size": 13}},
            annotation_position="top",
            annotation_xanchor=anchor,
            annotation_yshift=_LABEL_HEIGHT * level,
        )
    figure.update_xaxes(range=[0, end_s])


def _places(at: Sequence[float]) -> list[tuple[str, int]]:
    """Returns where labels go whose lines stand at these parts of the width, so that none is written over another.

    On which side of its line, and how many labels up.

    >>> _places([0.2, 0.5, 0.52, 0.55, 0.97])
    [('center', 0), ('right', 0), ('left', 0), ('right', 1), ('right', 0)]
    """
    places: list[tuple[str, int]] = []
    in_crowd = 0
    for number, here in enumerate(at):
        follows = number > 0 and here - at[number - 1] < _LABEL_WIDTH
        precedes = number + 1 < len(at) and at[number + 1] - here < _LABEL_WIDTH
        in_crowd = in_crowd + 1 if follows else 0
        if follows or precedes:
            places.append((("right", "left")[in_crowd % 2], in_crowd // 2))
        else:
            places.append(("right" if here > 1 - _LABEL_WIDTH / 2 else "center", 0))
    return places


def _figure(title: str, x: str, y: str, height: int = 330) -> Any:  # noqa: ANN401
    figure = plotly("graph_objects").Figure()
    _dress(figure, height)
    figure.update_layout(title={"text": title, "x": 0, "xref": "container", "pad": {"l": 12}, "font": {"size": 17}})
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y, rangemode="tozero")
    return figure


def _dress(figure: Any, height: int) -> None:  # noqa: ANN401
    font = {"family": "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif", "color": _INK, "size": 13}
    figure.update_layout(
        height=height,
        font=font,
        paper_bgcolor="#fff",
        plot_bgcolor="#fff",
        margin={"l": 95, "r": 20, "t": 70, "b": 50},
        showlegend=False,
    )
    figure.update_xaxes(gridcolor=_GRID, zeroline=False, rangemode="tozero")
    figure.update_yaxes(gridcolor=_GRID, zeroline=False, rangemode="tozero", automargin=False)
