from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.console import Console

from holons.cli.rows import rows_table

ROW = {
    "partition": 0,
    "ts": datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC),
    "user": "somebody with a rather long name",
    "region": "europe-west-1-somewhere\nelse",
    "_offset": 1_234_567_890_123,
    "_reason": "no time in column 'ts', so that it belongs to no window",
}


def shown(row: dict[str, object], width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(rows_table("dead: 2 rows", [row, row], width))
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 300])
def test_rows_take_one_line_each_whatever_the_width(width: int):
    lines = shown(ROW, width)
    assert max(map(len, lines)) <= width
    assert len([line for line in lines if line.startswith("│")]) == 2
    (heading,) = [line for line in lines if line.startswith("┃")]
    told = [name.strip() for name in heading.strip("┃").split("┃")]
    left_out = [name for name in ROW if name not in told]
    assert [name for name in told if name != "…"] == [name for name in ROW if name not in left_out], (
        "headings are whole"
    )
    assert ("…" in told) == bool(left_out)
    if left_out:
        caption = " ".join(line.strip() for line in lines[lines.index(next(x for x in lines if x[0] == "└")) + 1 :])
        number = "1 column" if len(left_out) == 1 else f"{len(left_out)} columns"
        assert caption == f"{number} left out: {', '.join(left_out)}"


def test_what_is_left_out_is_in_the_middle_and_numbers_are_never_cut():
    text = "\n".join(shown(ROW, 80))
    assert "1234567890123" in text
    assert "_reason" in text
    assert "partition" in text
    assert "region" not in text.partition("└")[0]
    assert "…" not in "\n".join(shown(ROW, 300))
