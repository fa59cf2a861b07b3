"""The picture of a pipeline says what flows where: an arrow touches no box but its two ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias
from xml.etree import ElementTree

import polars as pl
import pytest
from tests.unit.dataflow.everywhere import ask_stream, bid_stream
from tests.unit.dataflow.test_travel import built

import holons as h
from holons.nexmark import query
from holons.program.dataflow.plan import nodes

SPACE = {"s": "http://www.w3.org/2000/svg"}
SECOND = h.Tumbling("1s")
SAMPLES = 40

Point: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[str, float, float, float, float]


def boxes_of(picture: ElementTree.Element) -> list[Box]:
    """What is written in each box, its left and right, top and bottom."""
    found = []
    for group in picture.findall("s:g", SPACE):
        x, y, width, height = (float(group.find("s:rect", SPACE).get(name)) for name in ("x", "y", "width", "height"))
        found.append((group.find("s:title", SPACE).text, x, x + width, y, y + height))
    return found


def points_of(path: str) -> Iterator[Point]:
    """Points along an arrow, close together; M, L, H and C are all that is drawn."""
    here: Point = (0.0, 0.0)
    for command, text in re.findall(r"([A-Z])([^A-Z]*)", path):
        numbers = [float(one) for one in text.split()]
        if command == "H":
            numbers = [numbers[0], here[1]]
        given = list(zip(numbers[::2], numbers[1::2], strict=True))
        corners = {"M": given * 4, "C": [here, *given]}.get(command) or [here, here, *given, *given]
        assert len(corners) == 4, f"{command} is not known"
        for step in range(SAMPLES + 1):
            t = step / SAMPLES
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            yield tuple(sum(w * corner[axis] for w, corner in zip(weights, corners, strict=True)) for axis in (0, 1))
        here = corners[-1]


def arrows_of(picture: ElementTree.Element) -> list[tuple[str, str]]:
    """From which box to which each arrow goes; it touches no other."""
    boxes = boxes_of(picture)
    told = []
    for path in picture.findall("s:path", SPACE):
        points = list(points_of(path.get("d")))
        (start,) = (box for box in boxes if points[0][0] == box[2] and box[3] < points[0][1] < box[4])
        (end,) = (box for box in boxes if points[-1][0] == box[1] and box[3] < points[-1][1] < box[4])
        for box in boxes:
            inside = [(x, y) for x, y in points if box[1] <= x <= box[2] and box[3] <= y <= box[4]]
            if box not in (start, end):
                assert not inside, f"{start[0]} to {end[0]} runs through {box[0]} at {inside[0]}"
        told.append((start[0], end[0]))
    return told


def shared() -> h.Flow:
    """A result that is put out, and goes on."""
    counted = bid_stream().window(SECOND).aggregate(n=h.count())
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
    best = every.window(SECOND).group_by("n").aggregate(rows=h.count()).top(3, by="rows")
    return h.job(every.to("all"), one.to("one"), best.to("best"), two.to("two"), best.select("rows").to("counts"))


def zipped() -> h.Flow:
    """Results side by side, one of them of many more steps."""
    windows = bid_stream().window(SECOND)
    keyed = windows.group_by("auction").aggregate(n=h.count())
    best = keyed.top(1, by="n").filter(pl.col("n") > 0).zip(windows.aggregate(total=h.count()))
    return h.job(keyed.to("keyed"), best.to("best"), best.select("total").to("total"))


EVERY = [shared, joined, united, zipped, built, *(lambda name=name: query(name) for name in ("q4", "q5", "q7", "q8"))]


def expected(flow: h.Flow) -> list[tuple[str, str]]:
    """The arrows that the plan has."""
    sinks = flow.program.sinks
    inner = [(str(one), str(node)) for node in nodes(*(sink.node for sink in sinks)) for one in node.inputs]
    return sorted([*inner, *((str(sink.node), f"to {sink.channel}") for sink in sinks)])


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
def test_an_arrow_touches_no_box_but_its_ends(build):
    flow = build()
    assert sorted(arrows_of(ElementTree.fromstring(flow.diagram()))) == expected(flow)


@pytest.mark.parametrize("build", EVERY, ids=lambda build: build.__name__)
def test_all_is_within_the_picture_and_no_box_overlaps_another(build):
    picture = ElementTree.fromstring(build().diagram())
    width, height = float(picture.get("width")), float(picture.get("height"))
    boxes = boxes_of(picture)
    points = [point for path in picture.findall("s:path", SPACE) for point in points_of(path.get("d"))]
    corners = [(x, y) for _, left, right, top, bottom in boxes for x in (left, right) for y in (top, bottom)]
    assert all(0 < x < width and 0 < y < height for x, y in [*points, *corners])
    for one, other in combinations(boxes, 2):
        assert one[2] < other[1] or other[2] < one[1] or one[4] < other[3] or other[4] < one[3]


def test_only_arrows_from_the_same_box_share_their_way_through_a_column():
    picture = ElementTree.fromstring(united().diagram())
    passing: dict[Point, set[Point]] = {}
    for path in picture.findall("s:path", SPACE):
        points = list(points_of(path.get("d")))
        for x, y in re.findall(r" (\d+) (\d+)H", path.get("d")):
            passing.setdefault((float(x), float(y)), set()).add(points[0])
    assert passing
    assert all(len(starts) == 1 for starts in passing.values())


def test_sinks_stand_in_the_last_column():
    boxes = boxes_of(ElementTree.fromstring(shared().diagram()))
    last = max(left for _, left, *_ in boxes)
    assert {title for title, left, *_ in boxes if left == last} == {"to raw", "to big"}
