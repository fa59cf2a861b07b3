"""A pipeline as a picture: Mermaid text, which notebooks, GitHub and most documentation tools draw."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from holons.program.dataflow.plan import Aggregation, Join, Sink, nodes
from holons.program.dataflow.text import one_line, where_computed

_LINE_CHARACTERS: Final = 35
_LINES_MAX: Final = 3
_PLAIN_CHARACTERS: Final = " _.,()[]+-=/'|"
"""Besides letters and digits, what means nothing to Mermaid within a quoted label. All else is written as `#code;`."""
_CLASSES: Final = (
    "classDef step fill:#f4f4f1,stroke:#889,color:#222",
    "classDef windowed fill:#dde8f7,stroke:#889,color:#222",
    "classDef sink fill:#e7f0e2,stroke:#889,color:#222",
)


@dataclass(frozen=True)
class Diagram:
    """A flowchart in Mermaid. `str(diagram)` is its text; a notebook shows it as a picture."""

    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> Mapping[str, str]:
        """What notebooks show: the first of these that they know."""
        return {
            "text/vnd.mermaid": self.text,
            "text/markdown": f"```mermaid\n{self.text}\n```",
            "text/plain": self.text,
        }


def diagram(sinks: Sequence[Sink]) -> Diagram:
    """Draws all steps that lead to `sinks`, from left to right, each with who computes it."""
    steps = nodes(*(sink.node for sink in sinks))
    names = {step: f"n{number}" for number, step in enumerate(steps)}
    lines = ["flowchart LR"]
    for step, name in names.items():
        label = quoted([*_wrapped(one_line(step)), where_computed(step)])
        lines.append(f"  {name}[{label}]:::{'windowed' if isinstance(step, Aggregation | Join) else 'step'}")
    for number, sink in enumerate(sinks):
        lines.append(f"  s{number}([{quoted(_wrapped(f'to {sink.channel}'))}]):::sink")
    lines += [f"  {names[before]} --> {name}" for step, name in names.items() for before in step.inputs]
    lines += [f"  {names[sink.node]} --> s{number}" for number, sink in enumerate(sinks)]
    return Diagram("\n".join([*lines, *(f"  {line}" for line in _CLASSES)]))


def quoted(lines: Sequence[str]) -> str:
    """Returns a label of these lines in quotation marks, in which nothing ends the label or is markup.

    >>> quoted(['filter text != "<b>"', "partition 0"])
    '"filter text #33;= #34;#60;b#62;#34;<br/>partition 0"'
    """
    return '"' + "<br/>".join("".join(map(_escaped, line)) for line in lines) + '"'


def _escaped(character: str) -> str:
    if character.isalnum() or character in _PLAIN_CHARACTERS:
        return character
    return f"#{ord(character)};" if character.isprintable() else " "


def _wrapped(text: str) -> list[str]:
    return wrap(text, _LINE_CHARACTERS, max_lines=_LINES_MAX, placeholder=" …") or [" "]
