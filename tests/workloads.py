"""Inputs for the example programs and for the awkward cases, made from a seed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import polars as pl

import holons as h
from holons.engines.simulator.workloads import SECOND, YEAR, Make, Partition, partition, streams
from holons.engines.simulator.workloads import bid as _bid
from holons.engines.simulator.workloads import click as _click
from holons.engines.simulator.workloads import sale as _sale
from holons.engines.simulator.workloads import visit as _visit
from holons.program import Job

__all__ = ["EXAMPLES", "SECOND", "YEAR", "Make", "Partition", "Threads", "load", "partition", "streams"]


def load(name: str) -> Job:
    """The job of an example."""
    return importlib.import_module(f"examples.{name}").job


EXAMPLES: dict[str, tuple[Make, float]] = {
    "bid_share": (_bid, 4),
    "alert_rule": (_visit, 240),
    "top_sellers": (_sale, 15),
    "distinct_users": (_click, 150),
    "nested_market": (_bid, 5),
    "user_sessions": (_click, 60),
    "two_stages": (_visit, 150),
    "hot_auctions": (_bid, 15),
    "sale_lots": (_sale, 15),
}
"""Which rows an example wants, and over how many seconds."""


class Threads(h.Program):
    """How many threads polars has wherever this runs."""

    seen = h.WCRDT(h.MaxRegister("int"), h.Tumbling("1m"))

    def process(self, events: h.Events) -> None:
        self.seen.insert(pl.thread_pool_size(), events.ts)

    def on_window(self, window: h.Window) -> Iterator[dict[str, int]]:
        yield {"threads": self.seen[window]}
