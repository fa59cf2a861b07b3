"""The picture of a pipeline has its steps and what flows between them, whatever is written in a label."""

from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.dataflow.everywhere import ask_stream, bid_stream
from tests.unit.dataflow.test_travel import built

import holons as h
from holons.nexmark import query
from holons.program.dataflow.diagrams import quoted
from holons.program.dataflow.plan import nodes

SECOND = h.Tumbling("1s")
LABEL = re.compile(r'"([^"]+)"')
BOX = re.compile(rf"  (\w+)(?:\[{LABEL.pattern}\]|\(\[{LABEL.pattern}\]\)):::(step|windowed|sink)")
ARROW = re.compile(r"  (\w+) --> (\w+)")
MARKUP = re.compile(r"[^\w .,()\[\]+\-=/'|]|\n")
"""What may mean something to Mermaid, Markdown or HTML within a label."""


def read_label(label: str) -> list[str]:
    """The lines of a label as Mermaid shows them; it contains no markup but line breaks and escapes."""
    lines = label.split("<br/>")
    for line in lines:
        assert not MARKUP.search(re.sub("#[0-9]+;", "", line)), line
    return [re.sub("#([0-9]+);", lambda escape: chr(int(escape[1])), line) for line in lines]


def read_diagram(flow: h.Flow) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """The lines in each box, and between which boxes there are arrows. Every line of the text must be one that we know."""
    first, *lines = str(flow.diagram()).split("\n")
    assert first == "flowchart LR"
    boxes, arrows = {}, []
    for line in lines:
        if box := BOX.fullmatch(line):
            assert box[1] not in boxes
            boxes[box[1]] = read_label(box[2] or box[3])
        elif arrow := ARROW.fullmatch(line):
            arrows.append((arrow[1], arrow[2]))
        else:
            assert line.startswith("  classDef "), line
    return boxes, arrows


def shared() -> h.Flow:
    """A result that is put out, and goes on."""
    counted = bid_stream().window(SECOND).agg(n=h.count())
    return h.job(counted.to("raw"), counted.filter(pl.col("n") > 1).to("big"))


def joined() -> h.Flow:
    """A join whose right side is many steps shorter than its left one."""
    bids = bid_stream().filter(pl.col("vip")).with_columns(twice=pl.col("price") * 2).filter(pl.col("twice") > 4)
    asks = ask_stream().select(auction="item", seller="seller")
    pairs = bids.window(SECOND).join(asks.window(SECOND), on="auction")
    return h.job(pairs.to("pairs"), bid_stream().to("bids"), bids.select("at", "twice").to("twice"))


def united() -> h.Flow:
    """A union of streams that are used by themselves too."""
    one = h.source("one", schema={"ts": pl.Int64, "n": pl.Int64})
    two, three = (h.source(name, schema=one.schema).filter(pl.col("n") > 0) for name in ("two", "three"))
    every = one.union(two, three.with_columns(n=-pl.col("n")).filter(pl.col("n") < 9))
    best = every.window(SECOND).group_by("n").agg(rows=h.count()).top_k(3, by="rows")
    return h.job(every.to("all"), one.to("one"), best.to("best"), two.to("two"), best.select("rows").to("counts"))


def zipped() -> h.Flow:
    """Results side by side, one of them of many more steps."""
    windows = bid_stream().window(SECOND)
    keyed = windows.group_by("auction").agg(n=h.count())
    best = keyed.top_k(1, by="n").filter(pl.col("n") > 0).zip(windows.agg(total=h.count()))
    return h.job(keyed.to("keyed"), best.to("best"), best.select("total").to("total"))


EVERY = [shared, joined, united, zipped, built, *(lambda name=name: query(name) for name in ("q4", "q5", "q7", "q8"))]


def expected(flow: h.Flow) -> tuple[list[str], list[tuple[str, str]]]:
    """The boxes and arrows of the plan, by what is written in the boxes."""
    sinks = flow.program.sinks
    steps = list(nodes(*(sink.node for sink in sinks)))
    inner = [(str(before), str(step)) for step in steps for before in step.inputs]
    outer = [(str(sink.node), f"to {sink.channel}") for sink in sinks]
    return sorted([*map(str, steps), *(end for _, end in outer)]), sorted([*inner, *outer])


def begins(shown: str, text: str) -> bool:
    """Whether a box shows a text; of a long one only its beginning is shown."""
    shown, text = shown.replace(" ", ""), text.replace(" ", "")
    return text.startswith(shown.removesuffix("…")) if shown.endswith("…") else text == shown


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
def test_it_has_the_boxes_and_arrows_of_the_plan(build):
    flow = build()
    boxes, arrows = read_diagram(flow)
    shown = {name: " ".join(lines if name.startswith("s") else lines[:-1]) for name, lines in boxes.items()}
    texts, between = expected(flow)
    assert len(shown) == len(texts)
    assert all(begins(mine, text) for mine, text in zip(sorted(shown.values()), texts, strict=True))
    mine = sorted((shown[start], shown[end]) for start, end in arrows)
    for ours, theirs in zip(mine, between, strict=True):
        assert begins(ours[0], theirs[0])
        assert begins(ours[1], theirs[1])


def test_a_box_says_who_computes_its_step():
    boxes, _ = read_diagram(shared())
    assert {lines[-1] for name, lines in boxes.items() if name.startswith("n")} == {
        "each partition, its own rows",
        "stage 0, partition 0, for all",
    }


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_label_shows_any_text_and_is_never_markup(lines):
    label = quoted(lines)
    assert LABEL.fullmatch(label)
    assert read_label(label[1:-1]) == ["".join(c if c.isprintable() else " " for c in line) for line in lines]


@pytest.mark.parametrize(
    "text", ['"] --> n0', "%%{init: {}}%%", "`bold`", "a|b", "#quot;", "$$x$$", "\n\r\x00", "größe", "style: #1;"]
)
def test_a_hostile_name_is_only_a_name(text):
    flow = bid_stream().filter(pl.col("text") != text).to("rows")
    boxes, arrows = read_diagram(flow)
    assert len(boxes) == 3
    assert len(arrows) == 2


def test_no_line_of_a_box_is_long():
    columns = {f"a_rather_long_name_of_a_column_{number}": pl.lit(number) for number in range(9)}
    boxes, _ = read_diagram(bid_stream().select(**columns).to("out"))
    assert max(len(line) for lines in boxes.values() for line in lines) <= 38
    assert max(map(len, boxes.values())) == 4


def test_notebooks_draw_it():
    flow = shared()
    bundle = flow._repr_mimebundle_()
    assert bundle == flow.diagram()._repr_mimebundle_()
    assert bundle["text/vnd.mermaid"] == bundle["text/plain"] == str(flow.diagram())
    assert bundle["text/markdown"] == f"```mermaid\n{flow.diagram()}\n```"
