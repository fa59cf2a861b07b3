"""A page for people: words, tables and figures in one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from holons.errors import MissingExtra

_STYLE: Final = """
:root { color-scheme: light; }
body { margin: 0; background: #f4f5f7; color: #1f2733; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 12px; letter-spacing: -0.01em; }
h2 { font-size: 20px; margin: 40px 0 8px; }
p { max-width: 820px; margin: 8px 0; }
section { background: #fff; border: 1px solid #e2e5ea; border-radius: 10px; padding: 12px 16px; margin: 14px 0;
  overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 50%; }
caption { text-align: left; color: #5b6675; padding-bottom: 6px; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid #edeff2; text-align: left; white-space: nowrap; }
th { color: #5b6675; font-weight: 600; }
td.number, th.number { text-align: right; }
tr:last-child td { border-bottom: 0; }
.facts { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.fact { background: #fff; border: 1px solid #e2e5ea; border-radius: 10px; padding: 12px 18px; min-width: 130px; }
.fact b { display: block; font-size: 24px; line-height: 1.25; font-variant-numeric: tabular-nums; }
.fact span { color: #5b6675; font-size: 14px; }
.good { color: #17803d; } .bad { color: #c02626; }
footer { color: #5b6675; font-size: 14px; margin-top: 36px; }
"""


class Report:
    """Put together from top to bottom. Whatever is put in is text, and is escaped.

    >>> page = Report("Highest bids")
    >>> page.text("1 < 2 & so on")
    >>> "1 &lt; 2 &amp; so on" in page.html()
    True
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._figures = 0

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, *paragraphs: str) -> None:
        self._parts += [f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs]

    def verdict(self, text: str, *, good: bool) -> None:
        """A line that says whether all is well."""
        self._parts.append(f'<p class="{"good" if good else "bad"}"><b>{escape(text)}</b></p>')

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """A row of figures that matter, each with what it is."""
        shown = (f'<div class="fact"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for value, what in facts)
        self._parts.append(f'<div class="facts">{"".join(shown)}</div>')

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | int | float]], caption: str = "") -> None:
        """Numbers are aligned to the right."""
        numeric = [all(isinstance(row[at], int | float) for row in rows) and bool(rows) for at in range(len(columns))]

        def line(tag: str, cells: Sequence[str | int | float]) -> str:
            shown = (
                f"<{tag}{' class=number' if right else ''}>{escape(_cell(cell))}</{tag}>"
                for cell, right in zip(cells, numeric, strict=True)
            )
            return f"<tr>{''.join(shown)}</tr>"

        body = "".join(line("td", row) for row in rows)
        head = f"<caption>{escape(caption)}</caption>" if caption else ""
        self._parts.append(f"<section><table>{head}{line('th', columns)}{body}</table></section>")

    def figure(self, figure: Any) -> None:  # noqa: ANN401 - a plotly figure; plotly has no types
        self._figures += 1
        config = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
        drawn = figure.to_html(full_html=False, include_plotlyjs=False, config=config, div_id=f"figure-{self._figures}")
        self._parts.append(f"<section>{drawn}</section>")

    def html(self) -> str:
        """Returns the whole page; the code that draws figures is in it."""
        code = f"<script>{plotly('offline').get_plotlyjs()}</script>" if self._figures else ""
        title = escape(self._title)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style>{code}</head>'
            f"<body><main><h1>{title}</h1>\n{chr(10).join(self._parts)}\n"
            "<footer>Made by Holons. Everything in this page is in this file.</footer></main></body></html>\n"
        )

    def write(self, file: Path) -> None:
        file.write_text(self.html(), encoding="utf-8")


def _cell(cell: str | float) -> str:
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.4g}" if isinstance(cell, float) else cell


def plotly(module: str) -> Any:  # noqa: ANN401 - plotly has no types
    """Returns a module of plotly, which draws figures and is not needed for anything else."""
    import importlib

    try:
        return importlib.import_module(f"plotly.{module}")
    except ImportError as error:
        raise MissingExtra(
            "figures are drawn by plotly, which is not installed", hint="pip install 'holons[report]'"
        ) from error
