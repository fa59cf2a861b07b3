"""Programs for the awkward corners, each as small as it can be."""

from __future__ import annotations

import polars as pl

import holons as h


class EverythingExact(h.Program):
    """Float sums and sketches, tumbling and sliding: the same bits for every cut."""

    total = h.WCRDT(h.Sum("float"), h.Tumbling("2s"))
    mean = h.WCRDT(h.Average("float"), h.Tumbling("2s"))
    quantiles = h.WCRDT(h.Quantiles(0.01), h.Tumbling("2s"))
    users = h.WCRDT(h.HyperLogLog(7), h.Tumbling("2s"))
    histogram = h.WCRDT(h.Histogram([-1.0, 0.0, 1.0]), h.Tumbling("2s"))
    best = h.WCRDT(h.TopK(2), h.Tumbling("2s"))
    sliding = h.WCRDT(h.Sum("float"), h.Sliding("3s", every="2s"))
    by_user = h.WCRDT(h.MergeMap(h.Average("float")), h.Sliding("3s", every="2s"))

    def process(self, events):
        spent = events["spent"]
        for handle in (self.total, self.mean, self.quantiles, self.histogram, self.sliding):
            handle.insert(spent, events.ts)
        self.users.insert(events["user"], events.ts)
        self.best.insert((spent, events["user"]), events.ts)
        self.by_user.insert((events["user"], spent), events.ts)

    @h.on_window(total)
    def tumbling(self, window):
        median = self.quantiles[window].quantile(0.5)
        yield {
            "start": window.start,
            "total": self.total[window],
            "mean": self.mean[window],
            "median": median,
            "users": float(self.users[window]),
            "histogram": self.histogram[window],
            "best": [f"{score}:{user}" for score, user in self.best[window]],
        }

    @h.on_window(sliding)
    def slid(self, window):
        yield {"start": window.start, "total": self.sliding[window], "by": str(self.by_user[window].to_dict())}


class Accumulating(h.Program):
    """State that is kept across windows; read now and one window back."""

    ever = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"), accumulate=True)
    mine = h.WLocal(h.GCounter(), h.Tumbling("1s"), accumulate=True)

    def process(self, events):
        self.ever.insert((events["user"], 1), events.ts)
        self.mine.insert(1, events.ts)

    def on_window(self, window):
        before = self.ever.window.before(window)
        yield {
            "start": window.start,
            "now": str(self.ever[window].to_dict()),
            "before": str(self.ever[before].to_dict()),
            "mine": self.mine[window],
        }


class TwoFilters(h.Program):
    """Two selections of one batch in one channel: ordered by origin, not by batch."""

    def process(self, events):
        self.output(events.where(events["price"] > 10).select("price", why=pl.lit("dear")))
        self.output(events.where(events["price"] < 50).select("price", why=pl.lit("cheap")))
        self.output(events.where(events["kind"] == "bid").select("price"), channel="bids")


class SomeColumns(h.Program):
    """Says which columns it sees."""

    seen = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))
    dear = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.seen.insert((",".join(events.columns), 1), events.ts)
        dear = events.where(events["price"] > 10)
        self.dear.insert(1, dear.ts)

    def on_window(self, window):
        for columns, rows in sorted(self.seen[window].items()):
            yield {"start": window.start, "columns": columns, "rows": rows, "dear": self.dear[window]}


class SomeColumnsAwaiting(h.Program):
    """`async process`: batches are cut where windows are sealed, rows put out have only what is seen."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    async def process(self, events):
        for window, run in events.by_window(self.total):
            before = await self.total.completed(self.total.window.before(window))
            self.total.insert(1, run.ts)
            self.output(run.with_columns(before=before))

    def on_window(self, window):
        yield {"start": window.start, "total": self.total[window]}


class TwoStreams(h.Program):
    """Two input streams meet in completed windows."""

    bids = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    visits = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
    mine = h.WLocal(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        (self.bids if events.stream == "bids" else self.visits).insert(1, events.ts)
        self.mine.insert(1, events.ts)

    def on_window(self, window):
        yield {
            "start": window.start,
            "bids": self.bids[window],
            "visits": self.visits[window],
            "mine": self.mine[window],
        }


class ThreeStages(h.Program):
    """A chain of three, with windows that do not divide one another, a share of keys, and local values in between."""

    counts = h.WCRDT(h.MergeMap(h.GCounter()), h.Sliding("3s", every="2s"))
    busy = h.WCRDT(h.MergeMap(h.MaxRegister()), h.Tumbling("5s"), stage=1)
    calls = h.WLocal(h.GCounter(), h.Tumbling("5s"), stage=1)
    rounds = h.WCRDT(h.GCounter(), h.Tumbling("7s"), stage=2)
    seen = h.Local(0, scope="window")

    def process(self, events):
        self.counts.insert((events["user"], 1), events.ts)

    @h.on_window(counts)
    def first(self, window):
        mine = self.counts[window].share()
        self.busy.insert((mine.keys, mine.values), window)
        self.calls.insert(1, window)
        self.seen.value += len(mine)
        yield {"start": window.start, "seen": self.seen.value}

    @h.on_window(busy)
    def second(self, window):
        self.rounds.insert(len(self.busy[window]), window)
        yield {"start": window.start, "busy": str(self.busy[window].to_dict()), "calls": self.calls[window]}

    @h.on_window(rounds)
    def third(self, window):
        yield {"start": window.start, "rounds": self.rounds[window]}


class AwaitsLaterStage(h.Program):
    """`process` awaits a window of stage 1, and branches on it."""

    counts = h.WCRDT(h.GCounter(), h.Tumbling("3s"))
    most = h.WCRDT(h.MaxRegister(), h.Tumbling("5s"), stage=1, keep="20s")
    dull = h.WCRDT(h.GCounter(), h.Tumbling("3s"))
    awaited = h.Local(0)

    async def process(self, events):
        self.counts.insert(1, events.ts)
        for window, run in events.by_window(self.counts):
            early = self.most.window.at(window.start - 9_000_000)
            if early.end <= window.start - 6_000_000 and window.start > 0:
                most = await self.most.completed(early)
                if most is None or most < 4:
                    self.dull.insert(1, run.ts)

    @h.on_window(counts)
    def counted(self, window):
        self.most.insert(self.counts[window], window)
        yield {"start": window.start, "count": self.counts[window], "dull": self.dull[window]}


class OneByOne(h.Program):
    """`each`, with a hand on the clock, a local list and dict outputs."""

    total = h.WCRDT(h.PNCounter(), h.Tumbling("1s"))
    recent = h.Local([])

    def each(self, event):
        self.total.insert(event["price"], event.ts)
        self.recent.value = [*self.recent.value[-2:], event["price"]]
        if event["price"] == 70:
            self.output({"ts": event.ts, "recent": self.recent.value})
        elif event["price"] == 5:
            self.output({"ts": event.ts, "cheap": True})
        if event["kind"] == "auction":
            self.total.advance(event.ts)

    def on_window(self, window):
        yield {"start": window.start, "total": self.total[window]}


class OneByOneAwaiting(h.Program):
    """`async each`: awaits the window before the event's own."""

    total = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    async def each(self, event):
        before = self.total.window.before(self.total.window.at(event.ts))
        self.total.insert(1 + (await self.total.completed(before)) % 3, event.ts)
        self.output({"ts": event.ts, "before": self.total[before]})

    def on_window(self, window):
        yield {"start": window.start, "total": self.total[window]}


class Registers(h.Program):
    """Registers and sets whose winners need a total order of events."""

    emit = "once"

    last = h.WCRDT(h.LWWRegister(), h.Tumbling("2s"))
    versions = h.WCRDT(h.MVRegister(), h.Tumbling("2s"))
    there = h.WCRDT(h.ORSet(), h.Tumbling("2s"))
    once = h.WCRDT(h.TwoPhaseSet(), h.Tumbling("2s"))
    all = h.WCRDT(h.GSet(), h.Tumbling("2s"))
    least = h.WCRDT(h.MinRegister("float"), h.Tumbling("2s"))
    front = h.WCRDT(h.ParetoFront(), h.Tumbling("2s"))

    def process(self, events):
        gone = events["spent"] < 0
        self.last.insert(events["user"], events.ts)
        self.versions.insert(events["user"], events.ts)
        self.there.insert((events["user"], gone), events.ts)
        self.once.insert((events["page"], gone), events.ts)
        self.all.insert(events["user"], events.ts)
        self.least.insert(events["spent"], events.ts)
        self.front.insert(
            (events["spent"].abs().cast(pl.Int64), events["user"].str.len_chars().cast(pl.Int64)), events.ts
        )

    def on_window(self, window):
        handles = (self.last, self.versions, self.there, self.once, self.all, self.least, self.front)
        yield {"start": window.start, **{handle._name: _text(handle[window]) for handle in handles}}


class SeveralWindows(h.Program):
    """Two kinds of windows share a window-scoped local: called in one order, by (end, start)."""

    short = h.WCRDT(h.GCounter(), h.Tumbling("1s"), keep="10s")
    long = h.WCRDT(h.GCounter(), h.Sliding("4s", every="3s"))
    sessions = h.WCRDT(h.GCounter(), h.Session("2s"))
    order = h.Local([], scope="window")

    def process(self, events):
        self.short.insert(1, events.ts)
        self.long.insert(events["price"], events.ts)
        self.sessions.insert(1, events.ts, key=events["auction"])

    @h.on_window(short)
    def on_short(self, window):
        self.order.value = [*self.order.value[-3:], "s"]
        yield {"start": window.start, "n": self.short[window], "order": "".join(self.order.value)}

    @h.on_window(long)
    def on_long(self, window):
        self.order.value = [*self.order.value[-3:], "l"]
        last = self.short.window.at(window.last)
        last = last if last.end <= window.end else self.short.window.before(last)
        yield {
            "start": window.start,
            "n": self.long[window],
            "of": self.short[last],
            "order": "".join(self.order.value),
        }

    @h.on_window(sessions)
    def on_session(self, window):
        self.order.value = [*self.order.value[-3:], "x"]
        yield {"key": window.key, "start": window.start, "n": self.sessions[window], "order": "".join(self.order.value)}


class FutureInserts(h.Program):
    """Inserts ahead of the event's own time, and a second time column."""

    later = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.later.insert(1, events.ts + "2500ms")
        self.later.insert(10, events.where(events["price"] == 70).ts)

    def on_window(self, window):
        yield {"start": window.start, "n": self.later[window]}


def _text(value):
    return str(sorted(value, key=str)) if isinstance(value, frozenset | set) else str(value)
