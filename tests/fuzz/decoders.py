"""Everything that reads bytes which others wrote: with messages as they should be, and the errors that it may raise."""

from __future__ import annotations

import hmac

import msgspec
import numpy as np
from rich.console import Console
from tests.fuzz import market
from tests.fuzz.fuzzing import Decoder
from tests.fuzz.market import FOLDED, JOB, PARTITIONS, made
from tests.fuzz.register import decoder

from holons import codec, wire
from holons.cli.status import status_table
from holons.clock import SystemClock
from holons.engines import node_logs, orders, producers
from holons.engines.node_logs import LogRelay, NodeLogRecord
from holons.engines.watching import Watcher
from holons.errors import (
    BadElement,
    CodecError,
    HolonsError,
    InvariantBroken,
    NondeterministicProgram,
    RecordDamaged,
    UnknownRecordVersion,
)
from holons.names import decoded, encoded
from holons.node import Settings, Submitted
from holons.node.jobs import Decisions
from holons.node.membership import Membership
from holons.node.messages import Claim, Heartbeat, Running, Stopped, decode_claim, decode_heartbeat
from holons.node.ownership import Ownership, Trail
from holons.node.recovery import STATE, StateRecord
from holons.program import Cut, Records
from holons.program.folding import Fold, Partial, PartialFold, _tables
from holons.program.locals import thaw
from holons.program.process import ProcessState
from holons.store import GridStore
from holons.store.letters import Ask, Holds, Put, Want
from holons.store.records import header, parse_position, position_text, unframe
from holons.streams import MemoryHub, MemoryJournal
from holons.windows import BEGINNING, ENDING

MESSAGE = (CodecError,)
RECORD = (CodecError, UnknownRecordVersion)
REPLICA = (CodecError, InvariantBroken, NondeterministicProgram)


def in_memory(data: bytes) -> MemoryHub:
    """A shared stream in which somebody has written a message."""
    hub = MemoryHub()
    hub.append("somebody", data)
    return hub


# --- what nodes tell each other -----------------------------------------------------------------------------------------


@decoder("holons.node.messages:decode_heartbeat")
def heartbeats() -> Decoder:
    running = Running("market-0", 0, 0, 3, 17, 4, False, True, 5_000_000, (1_000_000, 2_000_000), 9, 6_000_000)
    ended = msgspec.structs.replace(running, partition=1, finished=True, ordinals={"late": 3, "on_window": 70})
    samples = [
        Heartbeat("node-1#7.0", 1),
        Heartbeat("node-1#7.0", 2, (running, ended), False, 1, True, 4_321),
        Heartbeat("node-2#7.1", 300, (running,) * 3, True, 2),
        Heartbeat("node-3#8", 2**40, (msgspec.structs.replace(running, watermark=ENDING, stored_to=BEGINNING),)),
    ]
    settings, console = Settings(), Console(width=120, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123

    def read(data: bytes) -> None:
        heartbeat = decode_heartbeat(data)
        membership = Membership("me", settings)
        membership.receive(heartbeat)
        membership.all_running()
        membership.suspicion("market-0", 0)
        hub = MemoryHub()
        watcher = Watcher(hub.open("me"), SystemClock())
        hub.append("somebody", data)
        status = watcher.look("market-0", (("bids", 2),))
        repr(status)
        msgspec.json.encode(status.record())
        if shown[0] % 50 == 0:  # slow
            console.print(status_table(status))
        shown[0] += 1

    shown = [0]
    return Decoder("heartbeats", list(map(wire.encode, samples)), read, MESSAGE, cost=4)


@decoder("holons.node.messages:decode_claim")
def claims() -> Decoder:
    def read(data: bytes) -> None:
        claim, ownership, trail = decode_claim(data), Ownership(), Trail()
        ownership.merge(claim)
        ownership.outbid(claim)
        trail.add("somebody", 0, claim, 0)
        trail.needless(ownership)

    samples = [Claim("market-0", 3, 1, 2**40, "node-1#7.0"), Claim("", 0, 0, 0, "zoë")]
    return Decoder("claims", list(map(wire.encode, samples)), read, MESSAGE)


@decoder("holons.node.messages:decode_decision")
def decisions() -> Decoder:
    cut = Cut(17, ((5, 3, (0, 0), 1), (9, 8, (1, "ann"), 0)), (5, 9), {"late": 1})
    samples = [
        Submitted("market", 0, "abc", "driver#1", (("bids", 2), ("visits", 3))),
        Submitted("market", 1, "def", "driver#2", (("bids", 2),), "market-0-abcd", (cut, Cut())),
        Stopped("market-0-abcd", "Cancelled", "on request"),
    ]

    def read(data: bytes) -> None:
        journal = MemoryJournal()
        journal.propose(0, 0, data)
        read_ = Decisions(journal)
        read_.read()
        jobs = read_.jobs
        for version in jobs.versions.values():
            repr((version.id, version.partitions, version.cut(0), jobs.history(version.name)))

    return Decoder("decisions", list(map(wire.encode, samples)), read, MESSAGE)


@decoder("holons.wcrdt.delta:_decode", "holons.wcrdt.replica:decode_message")
def deltas() -> Decoder:
    samples = made().messages

    def read(data: bytes) -> None:
        state = market.new_state()
        state.receive(data)

    return Decoder("deltas", samples[:8] + samples[-4:], read, REPLICA, cost=2)


@decoder("holons.wcrdt.preview:_decode")
def previews() -> Decoder:
    windows = [
        (index, window)
        for index, handle in enumerate(JOB.layout.handles)
        if handle.shared and handle.window.known_ahead and handle.stage == 0
        for window in handle.window.aligned.windows_of(8_500_000)[:1]
    ]

    def read(data: bytes) -> None:
        state = market.new_state()
        state.receive_preview(data)
        for index, window in windows:
            state.peek(index, window, preview=True)

    return Decoder("previews", made().previews[-4:], read, (*REPLICA, BadElement), cost=2)


@decoder("holons.store.letters:decode")
def grid_letters() -> Decoder:
    at = position_text((7, -12))
    samples = [
        Put(encoded("market/0/process"), at, b"data", "node-2", ("me", "node-3")),
        Holds({encoded("market/0/process"): (position_text(()), (at, position_text((9,))))}, (("me", 0), ("x", 3))),
        Ask(encoded("market/0/process"), 3),
        Want(encoded("market/0/process"), at, "me"),
    ]

    def read(data: bytes) -> None:
        hub = in_memory(data)
        grid = GridStore(hub.open("me"), SystemClock())
        grid.put("market/0/process", (7, -12), b"mine")
        grid.tend(["me", "somebody", "node-3"])
        grid.tend(["me", "somebody"])
        grid.durable("market/0/process")

    return Decoder("grid letters", list(map(wire.encode, samples)), read, MESSAGE, cost=4)


@decoder("holons.engines.node_logs:decode_log_record")
def log_records() -> Decoder:
    samples = [
        NodeLogRecord("node-1#7.0", 1.7e9, 30, "holons.node", "takes over partition 3"),
        NodeLogRecord("node-1#7.0", 0.0, 10, "app", "%s {} \x1b[31m"),
    ]

    def read(data: bytes) -> None:
        hub = MemoryHub()
        hub.append("node-1#7.0", data)
        LogRelay(hub.open("me"), "7").relay()
        node_logs.decode_log_record(data)

    return Decoder("log records", list(map(wire.encode, samples)), read, MESSAGE, cost=4)


@decoder("holons.engines.orders:_decode")
def signed_orders() -> Decoder:
    version = Submitted("market", 0, "abc", "driver#1", (("bids", 2),))
    samples = [orders.JobOrder(version, b"code"), orders.NodeOrder("node-1", "leave"), orders.NodeOrder("x", "stop")]

    def read(data: bytes) -> None:
        hub = in_memory(hmac.digest(b"secret", data, "sha256") + data)
        orders.Orders(hub.open("me"), b"secret").received()

    return Decoder("signed orders", list(map(wire.encode, samples)), read, MESSAGE)


@decoder()
def forged_orders() -> Decoder:
    """Orders whose signature was not repaired: nobody decodes them."""
    body = wire.encode(orders.NodeOrder("node-1", "leave"))

    def read(data: bytes) -> None:
        assert not orders.Orders(in_memory(data).open("me"), b"another").received()

    samples = [hmac.digest(b"secret", body, "sha256") + body]
    return Decoder("forged orders", samples, read, (), structured=False)


@decoder("holons.engines.producers:_decode")
def messages_of_producers() -> Decoder:
    samples = [
        producers.Ready("producer-1#7"),
        producers.Begin(1.7e9, True),
        producers.Ended("producer-1#7", 70, (0.0, 0.25), "it failed"),
    ]
    return Decoder(
        "messages of producers",
        list(map(wire.encode, samples)),
        lambda data: producers._received(in_memory(data).open("me"), {}),
        MESSAGE,
    )


# --- what partitions store ----------------------------------------------------------------------------------------------


def _resume(records: Records) -> None:
    run = JOB.open_run(0, PARTITIONS, resume=records)
    repr((run.progress, run.ordinals))
    run.drain()


@decoder(
    "holons.program.lanes:Lane.restore", "holons.program.records:PROCESS", "holons.wcrdt.records:RecordFormat.decode"
)
def process_records() -> Decoder:
    def read(data: bytes) -> None:
        JOB.process_header(data)
        JOB.cut_after(Records(data, None), Cut())
        _resume(Records(data, None))

    samples = [records.process for records in made().records if records.process is not None]
    return Decoder("process records", samples[:2] + samples[-2:], read, RECORD, cost=4)


@decoder("holons.program.records:WINDOW", "holons.wcrdt.records:RecordFormat._refused")
def window_records() -> Decoder:
    def read(data: bytes) -> None:
        JOB.window_header(data)
        JOB.cut_after(Records(None, data), Cut())
        _resume(Records(None, data))

    samples = [records.window for records in made().records if records.window is not None]
    return Decoder("window records", samples[:2] + samples[-2:], read, RECORD, cost=4)


@decoder("holons.node.recovery:STATE", "holons.wcrdt.replica:_decode")
def replica_records() -> Decoder:
    def read(data: bytes) -> None:
        record = STATE.header(data)
        state = JOB.open_state(PARTITIONS, record.state)
        state.gaps()
        state.snapshot_bytes()

    samples = [STATE.encode(StateRecord({"node-1#7": 3}, msgspec.Raw(snapshot))) for snapshot in made().snapshots]
    return Decoder("replica records", samples, read, RECORD, cost=2)


@decoder("holons.program.folding:FOLD")
def fold_records() -> Decoder:
    def read(data: bytes) -> None:
        Fold(FOLDED, [1], bounded=False, resume=data)

    fold = Fold(FOLDED, [1], bounded=False)
    samples = [fold.snapshot()]
    fold.take([_partial(bounded=False)])
    return Decoder("fold records", [*samples, fold.snapshot()], read, RECORD, cost=8)


def _partial(*, bounded: bool) -> Partial:
    part = PartialFold(FOLDED, 0, 0, bounded=bounded)
    part.take(market.rows(0), np.arange(market.ROWS))
    return part.partial()


@decoder(
    "holons.program.folding:_decode",
    "holons.program.folding:Fold._take",
    "holons.program.folding:PartialFold.__init__",
    "holons.program.folding:_read",
    "holons.wcrdt.contribution:CONTRIBUTIONS",
)
def partial_folds() -> Decoder:
    def read(data: bytes) -> None:
        part = Partial.decode(data)
        run = FOLDED.open_run(0, 1)
        run.absorb(
            [part.contributions], ProcessState(locals=thaw(codec.decode(part.ended.locals))), _tables(part.pieces)
        )

    samples = [_partial(bounded=False).encode()]
    return Decoder("partial folds", samples, read, (HolonsError, InvariantBroken), cost=20)


@decoder("holons.store.records:unframe")
def frames_of_records() -> Decoder:
    name, at, data = "market/0/process", (7, -12), b"data" * 20
    samples = [header(name, at, data) + data, header(name, at, b"")]
    return Decoder(
        "frames of records",
        samples,
        lambda stored: unframe(name, at, stored, "here"),
        (RecordDamaged,),
        structured=False,
    )


@decoder()
def texts_of_positions() -> Decoder:
    samples = [position_text(at).encode() for at in ((), (7, -12), (2**63, -(2**63)))]
    samples.append(b"at_p99" + b"9" * 5_000)  # Python makes no number of that
    return Decoder(
        "texts of positions",
        samples,
        lambda data: parse_position(data.decode("utf-8", "surrogateescape")),
        (),
        structured=False,
    )


@decoder("holons.names:decoded")
def names_in_paths() -> Decoder:
    samples = [encoded(name).encode() for name in ("bids", "Gebote 2026/Köln", "..", "\ud800", "a" * 190)]
    read = lambda data: decoded(data.decode("utf-8", "surrogateescape"))  # noqa: E731
    return Decoder("names in paths", samples, read, (), structured=False)
