"""A pipeline is a value: it travels, has a digest, and can be read by people."""

from __future__ import annotations

import subprocess
import sys

import cloudpickle
import polars as pl
import pytest
from tests.unit.dataflow.everywhere import ASKS, BIDS, bid_stream, bids, cut

import holons as h
from holons.errors import BadDuration
from holons.program import canonical
from holons.semantics import run as run_oracle

CODE = """
def build(limit=3, size="1s", factor=2):
    stream = h.source("bids", time="at", disorder="300ms", schema=BIDS).filter(pl.col("auction") < limit)
    mapped = stream.map_batches(lambda rows: rows.with_columns(twice=pl.col("price") * factor))
    two = h.Tumbling(size)
    counts = mapped.window(two).group_by("bidder").agg(n=h.count(), s=h.sum("twice", where=pl.col("vip")))
    asks = h.source("asks", time="at", schema=ASKS).select("item", "seller")
    pairs = stream.window(two).join(asks.window(two), on={"auction": "item"}).select("seller", "price")
    return h.job(counts.top_k(2, by="n").to("top"), pairs.to("pairs"), stream.select("text").to("texts"))
"""


def built(before="", code=CODE, **options):
    """The job, written on other lines."""
    names = {"h": h, "pl": pl, "BIDS": BIDS, "ASKS": ASKS, "__name__": "mine"}
    exec(before + code, names)
    return names["build"](**options)


def test_the_same_code_on_other_lines_has_the_same_digest():
    assert built().digest == built("# moved\n\n\n").digest
    assert built().explain() != built("# moved\n\n\n").explain(), "it was moved indeed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit=3", "limit=4"),
        ('size="1s"', 'size="2s"'),
        ("factor=2", "factor=3"),
        ('pl.col("auction") < limit', 'pl.col("auction") <= limit'),
        ('where=pl.col("vip")', 'where=~pl.col("vip")'),
        ('h.sum("twice"', 'h.max("twice"'),
        ("top_k(2", "top_k(3"),
        ('group_by("bidder")', 'group_by("text")'),
        ('to("pairs")', 'to("both")'),
        ('"300ms"', '"400ms"'),
        ('.select("seller", "price")', '.select("seller")'),
        ('on={"auction": "item"})', 'on={"auction": "item"}, how="left")'),
        ("* factor", "+ factor"),
    ],
)
def test_other_code_has_another_digest(old, new):
    assert old in CODE
    assert built(code=CODE.replace(old, new)).digest != built().digest


def test_a_pipeline_runs_in_a_process_that_has_never_seen_it():
    job = built()
    asks = pl.DataFrame(schema=ASKS)
    given = {"bids": cut(bids(), 2, 20), "asks": cut(asks, 1, 20)}
    script = (
        "import sys, cloudpickle\n"
        "from holons.program import canonical\n"
        "from holons.semantics import run\n"
        "job, given = cloudpickle.load(sys.stdin.buffer)\n"
        "sys.stdout.buffer.write(job.digest.encode() + b' ' + canonical(run(job, given)))\n"
    )
    sent = cloudpickle.dumps((job, given))
    told = subprocess.run([sys.executable, "-c", script], input=sent, capture_output=True, check=True).stdout
    assert told == job.digest.encode() + b" " + canonical(run_oracle(job, given))


def test_explain_has_every_step_and_the_state():
    text = built().explain()
    for words in (
        "to top",
        "to pairs",
        "to texts",
        "source bids (time at, disorder 300ms)",
        "source asks (time at)",
        "filter auction < ",
        "map_batches <lambda>",
        "Tumbling(1s) by bidder: n = count(), s = sum(twice where",
        "top 2 by n",
        "inner join on auction = item, Tumbling(1s)",
        "partition 0, for all",
        "each partition, its own part",
        "each partition, its share of the keys",
        "MergeMap(Product(n=GCounter, s=",
        "Ranked(all rows)",
        "stage 0, replicated",
        "stage 0, of each partition",
    ):
        assert words in text, f"{words!r} is not in\n{text}"
    assert "rows go straight through" in bid_stream().to("x").explain()


def test_a_disorder_that_cannot_be_read_is_told_where_the_stream_begins():
    with pytest.raises(BadDuration, match="a while") as caught:
        h.source("bids", disorder="a while")
    assert "test_travel.py" in str(caught.value)


def test_describe_is_plain_data():
    told = built().describe()
    assert told["name"] == "top"
    assert told["channels"] == ["top", "pairs", "texts"]
    assert {one["stream"]: (one["time"], one["disorder"]) for one in told["sources"]} == {
        "bids": ("at", "300ms"),
        "asks": ("at", "0s"),
    }
    assert [(one["stage"], one["window"]) for one in told["handles"]] == [(0, "Tumbling(1s)")] * 3
    assert all(one["state"] for one in told["handles"])


def test_explain_tells_once_what_several_sinks_share():
    counted = bid_stream().window(h.Tumbling("1s")).group_by("auction").agg(n=h.count())
    text = h.job(counted.to("all"), counted.top_k(1, by="n").to("most")).explain()
    assert text.count("by auction: n = count") == 2
    assert text.count("[as above]") == 1
    assert text.count("source bids") == 1


def test_pipelines_and_their_parts_are_shown_in_a_few_words():
    rows = bid_stream().filter(pl.col("price") > 3)
    windows = rows.window(h.Tumbling("1s"))
    counted = windows.group_by("auction", "bidder").agg(n=h.count())
    assert repr(bid_stream()) == "Stream(source bids (time at, disorder 300ms))"
    assert repr(windows).startswith("Windowed(filter price > ")
    assert repr(windows).endswith(", Tumbling(1s))")
    assert repr(windows.group_by("auction", "bidder")) == f"Grouped({windows}, by auction, bidder)"
    assert repr(rows.window(h.Tumbling("1s"), accumulate=True)).endswith(", Tumbling(1s) accumulating)")
    assert repr(counted) == "Completed(Tumbling(1s) by auction, bidder: n = count())"
    assert repr(h.job(counted.to("hot"), rows.to("more"))) == "Flow 'hot' from bids to hot, more"
    assert repr(built()) == "Flow 'top' from bids, asks to top, pairs, texts"
    assert repr(h.job(rows.to("one"), name="mine")) == "Flow 'mine' from bids to one"


def test_what_shows_a_long_step_stays_short_and_in_one_line():
    long = bid_stream().filter(pl.col("text") != "word\n" * 500)
    windows = long.window(h.Tumbling("1s"))
    for one in (long, windows, windows.group_by("auction"), windows.agg(**{"n" * 500: h.count()})):
        assert len(repr(one)) < 150
        assert repr(one).isprintable()
        assert "…" in repr(one)


def test_how_a_pipeline_is_shown_says_nothing_of_what_it_is():
    (job, again, other) = (built(), built(), built(factor=3))
    assert repr(job) == repr(again) == repr(other)
    assert job != other
    assert job.digest == again.digest != other.digest
    assert cloudpickle.loads(cloudpickle.dumps(job)).digest == job.digest
