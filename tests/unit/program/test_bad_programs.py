"""Everything that a user can get wrong says what happened, where, and what to do."""

from __future__ import annotations

import random
import threading

import polars as pl
import pytest

import holons as h
from holons import errors
from holons.program import ProgramRun
from holons.wcrdt import Replica
from holons.windows import END, Mark

SECOND = 1_000_000


def rows(*times, **columns):
    return pl.DataFrame({"ts": list(times), "price": 1, **columns}, schema_overrides={"ts": pl.Int64})


def run(program, *partitions, **options):
    streams = {"in": list(partitions) or [rows(0, SECOND, 2 * SECOND)]}
    return h.run(h.job(program, "in", **options), streams, engine="embedded").wait().results()


class Counts(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(1, events.ts)

    def on_window(self, window):
        yield {"start": window.start, "n": self.n[window]}


def program(body, **state):
    """A program with `process` from a function, and the given state."""
    methods = {"process": body, "on_window": lambda self, window: None}
    return type("Mine", (h.Program,), {"n": h.WCRDT(h.GCounter(), h.Tumbling("1s")), **state, **methods})()


def says(error, *words):
    """The message has all these words, and a hint."""
    text = str(error.value)
    assert error.value.hint, f"no hint in {text!r}"
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["emit", "process", "each", "on_window", "output", "partition", "partitions"])
@pytest.mark.parametrize("state", [h.WCRDT(h.GCounter(), h.Tumbling("1s")), h.Local(0), h.Nested(Counts)])
def test_state_may_not_have_the_name_of_what_every_program_has(name, state):
    with pytest.raises(errors.BadProgram) as error:
        h.job(type("Mine", (Counts,), {name: state})(), "in")
    says(error, f"Mine.{name}", type(state).__name__, f"my_{name}")


@pytest.mark.parametrize(("name", "value"), [("output", "file.csv"), ("partition", 3), ("_scope", None)])
def test_no_attribute_may_hide_what_every_program_has(name, value):
    with pytest.raises(errors.BadProgram) as error:
        h.job(type("Mine", (Counts,), {name: value})(), "in")
    says(error, f"Mine.{name}", f"my_{name.strip('_')}")

    class Sets(Counts):
        def __init__(self):
            setattr(self, name, value)

    with pytest.raises(errors.BadProgram) as error:
        Sets()
    says(error, f"Sets.{name}")


def test_only_what_every_program_has_is_reserved():
    class Named(h.Program):
        channels = h.WCRDT(h.GCounter(), h.Tumbling("1s"))
        answers = h.WLocal(h.GCounter(), h.Tumbling("1s"))
        emit = "once"

        def process(self, events):
            self.channels.insert(1, events.ts)
            self.answers.insert(1, events.ts)

        def on_window(self, window):
            yield {"n": self.channels[window]}

    assert [row["n"] for row in run(Named()).rows("on_window")] == [1, 1, 1]
    assert {name for name in vars(h.Program) if not name.startswith("_")} == {
        "emit", "process", "each", "output", "partition", "partitions"
    }  # fmt: skip


# --- input ------------------------------------------------------------------------------------------------------------


def test_a_missing_time_column_names_the_ones_there_are():
    with pytest.raises(errors.BadInput) as error:
        run(Counts(), time="when")
    says(error, "'when'", "ts, price", 'time="..."')


def test_a_wrongly_typed_time_column_says_what_it_must_be():
    with pytest.raises(errors.BadInput) as error:
        run(Counts(), pl.DataFrame({"ts": ["noon"]}))
    says(error, "'ts'", "String", "timestamp")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_of_any_unit_and_zone_are_understood(unit):
    times = pl.Series("ts", [1500]).cast(pl.Datetime("ms", "Europe/Berlin")).cast(pl.Datetime(unit, "Europe/Berlin"))
    assert run(Counts(), pl.DataFrame({"ts": times})).rows() == [{"start": SECOND, "n": 1}]


def test_null_timestamps_go_to_the_dead_letters_and_move_no_clock():
    results = run(Counts(), rows(5 * SECOND, None, 6 * SECOND))
    assert [(row["_offset"], row["_reason"]) for row in results.rows("dead")] == [(1, "no time in column 'ts'")]
    assert [row["n"] for row in results.rows()] == [1, 1]


def test_a_column_of_nothing_but_null_times_is_all_dead_letters():
    assert len(run(Counts(), pl.DataFrame({"ts": [None, None]})).rows("dead")) == 2


def test_an_unknown_column_names_the_ones_there_are():
    with pytest.raises(errors.BadInput) as error:
        run(program(lambda self, events: events["prize"]))
    says(error, "'prize'", "price")


def test_a_stream_that_was_not_passed_is_named():
    with pytest.raises(errors.BadInput) as error:
        h.run(h.job(Counts(), "bids"), {"bid": []})
    says(error, "'bids'")


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        ({"in": rows(0)}, "list of partitions"),
        ({"in": []}, "list of partitions, not an empty one"),
        ({"inn": [rows(0)]}, "no rows were passed for stream 'in': the job reads 'in', and was passed 'inn'"),
        ({"in": [rows(0)], "inn": [rows(0)]}, "does not read stream 'inn': the job reads 'in', and"),
        ([rows(0)], "by name"),
        ({"in": [rows(0).lazy()]}, "LazyFrame"),
        ({"in": [{"ts": [0]}]}, "dict"),
        ({"in": [rows(0)], "out": [rows(0)]}, "'out'"),
    ],
)
def test_what_is_passed_to_run_is_checked_first(streams, words):
    with pytest.raises(errors.BadInput) as error:
        h.run(h.job(Counts(), "in"), streams)
    says(error, words)


def test_a_program_is_not_a_job_and_no_nodes_run_nothing():
    with pytest.raises(errors.BadInput, match="is not a job"):
        h.run(Counts(), {"in": [rows(0)]})
    for steps in (h.source("in"), h.source("in").window(h.Tumbling("1s"))):
        with pytest.raises(errors.BadInput, match=r"(?s)has no output.*\.to\(") as error:
            h.run(steps, {"in": [rows(0)]})
        assert "MyProgram" not in str(error.value)
    with pytest.raises(errors.BadInput, match="nodes"):
        h.run(h.job(Counts(), "in"), {"in": [rows(0)]}, nodes=0)


def test_an_unknown_channel_names_the_ones_there_are():
    results = run(Counts())
    assert results.rows("late") == []
    with pytest.raises(errors.BadInput) as error:
        results.to_polars("lates")
    says(error, "'lates'", "on_window", "late")


def test_late_rows_are_told():
    with pytest.warns(Warning, match="1 rows were late"):
        run(Counts(), rows(5 * SECOND, 0))


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["0s", "-1s", "soon", "", 5, -1])
def test_durations_that_are_none(size):
    with pytest.raises(errors.BadDuration) as error:
        h.Tumbling(size)
    says(error)


def test_a_slide_longer_than_the_window():
    with pytest.raises(errors.BadWindow) as error:
        h.Sliding("1s", every="2s")
    says(error, "gaps")


def test_a_window_that_the_handle_does_not_have():
    class Odd(Counts):
        def on_window(self, window):
            yield {"n": self.n[h.Window(window.start + 1, window.end + 1)]}

    with pytest.raises(errors.UnknownWindow) as error:
        run(Odd())
    says(error, "Tumbling(1s)", "partition 0", "window")


def test_sessions_do_not_accumulate_and_are_not_local():
    with pytest.raises(errors.BadWindow):
        h.WCRDT(h.GCounter(), h.Session("1s"), accumulate=True)
    with pytest.raises(errors.BadWindow):
        h.WLocal(h.GCounter(), h.Session("1s"))


# --- time by hand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_an_insert_below_the_watermark_is_refused_for_every_cut(batch):
    def process(self, events):
        self.n.insert(1, events.ts - "1500ms")

    job = h.job(program(process), "in")
    log = rows(0, SECOND, 4 * SECOND)
    with pytest.raises(errors.InsertBelowWatermark) as error:
        h.run(job, {"in": [[log.slice(at, batch) for at in range(0, 3, batch)]]}, engine="embedded").wait()
    says(error, "n:", "below the watermark", "offset 0", "partition 0")


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_an_insert_below_a_watermark_set_by_hand_is_refused_for_every_cut(batch):
    def process(self, events):
        self.n.insert(1, events.ts)
        self.n.advance(events.ts + "5s")

    job = h.job(program(process), "in")
    log = rows(0, SECOND, 2 * SECOND)
    with pytest.raises(errors.InsertBelowWatermark) as error:
        h.run(job, {"in": [[log.slice(at, batch) for at in range(0, 3, batch)]]}, engine="embedded").wait()
    says(error, "offset 1")


def test_a_single_time_in_process_is_refused():
    with pytest.raises(errors.WrongScope) as error:
        run(program(lambda self, events: self.n.insert(1, 5)))
    says(error, "process", "events.ts")
    with pytest.raises(errors.WrongScope) as error:
        run(program(lambda self, events: self.n.advance(5)))
    says(error, "advance")


def test_elements_and_times_must_belong_together():
    with pytest.raises(errors.BadElement) as error:
        run(program(lambda self, events: self.n.insert(events["price"], events.where(events.ts > 0).ts)))
    says(error, "3 elements for 2 timestamps")


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_reading_in_process_is_refused():
    with pytest.raises(errors.WrongScope) as error:
        run(program(lambda self, events: self.n[h.Window(0, SECOND)]))
    says(error, "timing", "on_window", "await")


def test_inserting_in_on_window_is_refused():
    class Writes(Counts):
        def on_window(self, window):
            self.n.insert(1, window)

    with pytest.raises(errors.WrongScope) as error:
        run(Writes())
    says(error, "stage=1")


def test_a_handle_of_a_later_stage_is_not_fed_by_process():
    class Feeds(Counts):
        later = h.WCRDT(h.GCounter(), h.Tumbling("2s"), stage=1)

        def process(self, events):
            self.later.insert(1, events.ts)

        on_window = h.on_window(Counts.n)(lambda self, window: None)

    with pytest.raises(errors.WrongScope) as error:
        run(Feeds())
    says(error, "later", "on_window")


@pytest.mark.parametrize("scope", ["process", "window"])
def test_a_local_belongs_to_one_scope(scope):
    class Shares(Counts):
        x = h.Local(0, scope=scope)

        def process(self, events):
            super().process(events)
            if scope == "window":
                self.x.value += 1

        def on_window(self, window):
            self.x.value += 1

    with pytest.raises(errors.WrongScope) as error:
        run(Shares())
    says(error, "x is a Local of", "deterministic")


def test_windows_later_than_the_one_given_are_not_read():
    class Peeks(Counts):
        def on_window(self, window):
            yield {"n": self.n[h.Window(window.end, window.end + SECOND)]}

    with pytest.raises(errors.WrongScope) as error:
        run(Peeks())
    says(error, "may not be completed")


def test_reads_older_than_the_handle_keeps_raise_whether_trimmed_or_not():
    class Digs(Counts):
        def on_window(self, window):
            yield {"n": self.n[h.Window(window.start - 5 * SECOND, window.end - 5 * SECOND)]}

    with pytest.raises(errors.WindowTrimmed) as error:
        run(Digs())
    says(error, "keep=")


def test_a_wlocal_is_not_read_where_only_one_partition_emits():
    class Once(h.Program):
        emit = "once"
        mine = h.WLocal(h.GCounter(), h.Tumbling("1s"))

        def process(self, events):
            self.mine.insert(1, events.ts)

        def on_window(self, window):
            yield {"mine": self.mine[window]}

    with pytest.raises(errors.WrongScope) as error:
        run(Once())
    says(error, 'emit = "each"')


def test_handles_do_nothing_outside_of_a_running_program():
    with pytest.raises(errors.WrongScope) as error:
        Counts.n.insert(1, 0)
    says(error, "outside")


def test_setting_attributes_while_running_is_refused():
    def process(self, events):
        self.seen = len(events)

    with pytest.raises(errors.WrongScope) as error:
        run(program(process))
    says(error, "self.seen", "h.Local")


def test_rows_kept_from_another_batch_are_refused():
    kept = []

    def process(self, events):
        kept.append(events.ts)
        self.n.insert(1, kept[0])

    with pytest.raises(errors.WrongScope) as error:
        run(program(process), [rows(0), Mark(0), rows(SECOND)])  # what a mark parts is never one batch
    says(error, "another batch")


def test_awaits_that_would_wait_for_themselves_are_refused_at_once():
    async def process(self, events):
        for window, _ in events.by_window(self.n):
            await self.n.completed(window)

    with pytest.raises(errors.AwaitWouldDeadlock) as error:
        run(program(process))
    says(error, "wait for itself", "before")


@pytest.mark.parametrize("use", [bool, lambda value: None])
def test_a_forgotten_await_is_noticed(use):
    async def process(self, events):
        for window, _ in events.by_window(self.n):
            use(self.n.completed(self.n.window.before(window)))

    with pytest.raises(errors.WrongScope) as error:
        run(program(process))
    says(error, "await")


def test_the_share_of_the_one_partition_that_emits_is_everything():
    class Once(h.Program):
        emit = "once"
        n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))

        def process(self, events):
            self.n.insert((events["price"], 1), events.ts)

        def on_window(self, window):
            return {"keys": len(self.n[window].share())}

    parts = [rows(0).with_columns(price=pl.lit(key)) for key in range(9)]
    assert run(Once(), *parts).rows() == [{"keys": 9}]


def test_completed_needs_an_async_process():
    with pytest.raises(errors.WrongScope) as error:
        run(program(lambda self, events: self.n.completed(h.Window(0, SECOND))))
    says(error, "async def process")


def test_peek_gives_none_before_a_window_is_completed():
    seen = []

    def process(self, events):
        self.n.insert(1, events.ts)
        seen.append((self.n.peek(h.Window(0, SECOND)), self.n.watermark() >= SECOND))

    run(program(process), [rows(0), Mark(0), rows(SECOND), Mark(SECOND), rows(2 * SECOND)])
    assert seen == [(None, False), (None, False), (1, True)]


# --- programs ---------------------------------------------------------------------------------------------------------


def test_an_unpicklable_program_names_the_attribute():
    bad = Counts()
    bad.lock = threading.Lock()
    with pytest.raises(errors.UnpicklableProgram) as error:
        h.job(bad, "in")
    says(error, "self.lock")


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "does nothing"),
        ({"process": lambda self, events: None, "n": h.WCRDT(h.GCounter(), h.Tumbling("1s"))}, "ever reads n"),
        ({"process": lambda self, events: None, "each": lambda self, event: None}, "both process and each"),
        ({"n": h.WCRDT(h.GCounter(), h.Tumbling("1s"))}, "neither process nor each"),
        ({"process": lambda self, events: (yield)}, "self.output"),
        (
            {
                "process": lambda self, events: None,
                "a": h.WCRDT(h.GCounter(), h.Tumbling("1s")),
                "b": h.WCRDT(h.GCounter(), h.Tumbling("2s")),
                "on_window": lambda self, window: None,
            },
            "@h.on_window",
        ),
        ({"process": lambda self, events: None, "a": h.WCRDT(h.GCounter(), h.Tumbling("1s"), stage=1)}, "feeds it"),
        ({"process": lambda self, events: None, "emit": "twice"}, "twice"),
    ],
)
def test_programs_that_do_not_fit_together(attributes, words):
    with pytest.raises(errors.BadProgram) as error:
        h.job(type("Odd", (h.Program,), attributes)(), "in")
    assert words in str(error.value)


def test_a_handle_needs_an_aggregate_and_a_window():
    with pytest.raises(errors.BadProgram):
        h.WCRDT(int, h.Tumbling("1s"))
    with pytest.raises(errors.BadWindow):
        h.WCRDT(h.GCounter(), "1s")


def test_an_error_in_the_program_says_where_and_keeps_its_cause():
    def process(self, events):
        1 // 0  # noqa: B018

    with pytest.raises(errors.ProgramFailed) as error:
        run(program(process))
    assert "partition 0" in str(error.value)
    assert "offset 0" in str(error.value)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_of_different_columns_in_one_channel_are_refused_for_every_cut(batch):
    def process(self, events):
        self.output(events.where(events.ts < SECOND).select("price"))
        self.output(events.where(events.ts >= SECOND).select("ts"))

    log = rows(0, SECOND, 2 * SECOND)
    with pytest.raises(errors.BadProgram) as error:
        run(program(process), [log.slice(at, batch) for at in range(0, 3, batch)])
    says(error, "'process'")


# --- determinism ------------------------------------------------------------------------------------------------------


def test_a_program_whose_two_runs_differ_is_found():
    rng = random.Random(1)

    def process(self, events):
        self.n.insert(rng.randrange(10**9), events.ts)

    job = h.job(program(process), "in")
    replica = Replica(job.layout.handles, 1)

    def own_the_partition():
        owner = ProgramRun(job, 0, 1)
        owner.feed(rows(0, SECOND), 0)
        while owner.step(replica):
            for delta in owner.drain()[1]:
                replica.apply(delta)

    own_the_partition()
    with pytest.raises(errors.NondeterministicProgram) as error:
        own_the_partition()  # a second owner, or the first one restarted
    says(error, "handle n", "partition 0", "window [1970-01-01")


def test_a_broken_promise_is_not_swallowed_by_except_exception():
    assert not issubclass(errors.NondeterministicProgram, Exception)
    assert not issubclass(errors.InvariantBroken, Exception)


def test_marks_move_idle_partitions_and_the_end_ends_them():
    idle, busy = [Mark(2 * SECOND)], rows(0, SECOND, 2 * SECOND)
    job = h.job(Counts(), "in")
    assert [
        row["n"] for row in h.run(job, {"in": [idle, busy]}, engine="embedded").wait().results().rows(partition=0)
    ] == [1, 1, 1]
    assert END.ts > 2**61


def test_a_local_that_cannot_be_checkpointed_is_refused_when_it_is_set():
    def process(self, events):
        self.x.value = object()

    with pytest.raises(errors.BadElement) as error:
        run(program(process, x=h.Local(0)))
    says(error, "Local x", "checkpointed")


def test_an_output_row_of_something_odd_is_refused():
    class Odd(Counts):
        def on_window(self, window):
            yield {"window": window}

    with pytest.raises(errors.BadElement) as error:
        run(Odd())
    says(error, "plain value")
