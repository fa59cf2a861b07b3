"""Brings what node processes log to their driver, through a shared stream: plain data, bounded, and never unpickled.

In the process of a node everything that is logged at the driver's own level or above goes to the stream: records of the node
and of the program, warnings, and the error that ends the process. While the driver watches, it passes them on to its own
`logging`, under `holons.nodes.<node>`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from holons import wire
from holons.clock import Clock
from holons.engines.tracebacks import for_people
from holons.errors import CodecError, LogDamaged, LogUnavailable, PromiseBroken
from holons.node import Node, Ports
from holons.streams import Cursor, SharedLog
from holons.visible import visible

_TEXT_CHARACTERS_MAX = 10_000  # a longer text is cut
_KEPT_RECORDS = 1_000  # of each node; older ones are trimmed
_TRIM_RECORDS = 100  # a node trims once for so many records
_REPEAT_S = 10.0  # one place in the code logs at most once in this time
_FRESH_S = 2.0  # for so long a failure is said to be there
_FAMILY = "holons.nodes"

logger = logging.getLogger("holons.node")
_failures = logging.getLogger("holons.node.trouble")


class NodeLogRecord(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """A record of Python's logging, and the node that logged it."""

    node: str
    created: float
    """Seconds since 1970, by the node's clock."""
    level: int
    logger: str
    text: str

    @property
    def level_name(self) -> str:
        """The name of the level, such as WARNING."""
        return logging.getLevelName(self.level)


decode_log_record: Callable[[bytes], NodeLogRecord] = wire.decoder(
    NodeLogRecord, "a log record", "the stream of log records"
)


def level_wanted() -> int:
    """Returns the level from which on this process logs records of its nodes: WARNING, unless its logging says otherwise."""
    return logging.getLogger(_FAMILY).getEffectiveLevel()


# --- in a node's process ----------------------------------------------------------------------------------------------


@contextmanager
def forwarding(stream: SharedLog, level: int) -> Iterator[None]:
    """Sends everything that this process logs within the context to a stream, and the error that ends it."""
    handler, root = _StreamHandler(stream), logging.getLogger()
    handler.addFilter(_RepeatFilter())
    before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    try:
        yield
    except (Exception, PromiseBroken):
        logger.exception("this node ends")
        raise
    finally:
        logging.captureWarnings(False)
        root.setLevel(before)
        root.removeHandler(handler)


class _StreamHandler(logging.Handler):
    """Appends records to a stream, and keeps the newest of them."""

    def __init__(self, stream: SharedLog) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = visible(self.format(record))[:_TEXT_CHARACTERS_MAX]
            entry = NodeLogRecord(self._stream.writer, record.created, record.levelno, record.name, text)
            position = self._stream.append(wire.encode(entry))
            if position % _TRIM_RECORDS == _TRIM_RECORDS - 1:
                self._stream.trim({self._stream.writer: max(0, position - _KEPT_RECORDS)})
        except LogUnavailable:
            pass  # the disk is full, for instance: whoever writes rows will say so
        except Exception:  # noqa: BLE001 - as logging does: a record that cannot be sent must not end the process
            self.handleError(record)


class _RepeatFilter(logging.Filter):
    """Lets each place in the code log once in a while, and then adds how many records it left out."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, int], tuple[float, int]] = {}
        """By place: when it last logged, and how many records were left out since."""

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno
        logged_s, omitted = self._logged.get(place, (float("-inf"), 0))
        if record.name != logger.name and record.created - logged_s < _REPEAT_S:
            self._logged[place] = logged_s, omitted + 1
            return False
        self._logged[place] = record.created, 0
        if omitted:
            record.msg, record.args = f"{record.getMessage()} (and {omitted} like it before)", None
        return True


def with_logged_failures(ports: Ports) -> Ports:
    """Returns the same ports, which log when a log or store does not answer; nodes themselves just try again."""
    trouble = _Trouble(ports.clock)
    return replace(
        ports,
        heartbeats=_LoggedPort(ports.heartbeats, trouble),
        control=_LoggedPort(ports.control, trouble),
        decisions=_LoggedPort(ports.decisions, trouble),
        sync=lambda job: _LoggedPort(ports.sync(job), trouble),
        input=lambda stream: _LoggedPort(ports.input(stream), trouble),
        output=lambda job, channel, partitions: _LoggedPort(ports.output(job, channel, partitions), trouble),
        store=_LoggedPort(ports.store, trouble),
        trouble=trouble.now,
    )


class _Trouble:
    """The last failure of any port, for as long as it is fresh: who cannot go on tries again all the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = ("", 0.0)

    def note(self, error: OSError) -> None:
        """Notes a failure."""
        self._last = str(error).partition("\n")[0], self._clock.now_s()

    def now(self) -> str:
        """Returns what does not answer now; empty if all does."""
        story, at_s = self._last
        return story if story and self._clock.now_s() - at_s < _FRESH_S else ""


class _LoggedPort:
    """A log or a store that logs its failures."""

    def __init__(self, port: object, trouble: _Trouble) -> None:
        self._port = port
        self._trouble = trouble

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the port has
        attribute = getattr(self._port, name)
        if not callable(attribute):
            return attribute

        def logged(*arguments: object, **named: object) -> object:
            try:
                return attribute(*arguments, **named)
            except OSError as error:
                _failures.warning("%s", error)
                self._trouble.note(error)
                raise

        setattr(self, name, logged)
        return logged


class Diary:
    """Logs what changes at a node: which partitions it takes over or lets go, and which jobs have stopped."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._running: set[tuple[str, int]] = set()
        self._owners: dict[tuple[str, int], str] = {}
        self._stopped: set[str] = set()

    def look(self) -> None:
        """Logs what has changed since the last call."""
        node = self._node
        running = {(job, partition) for job, here in node.jobs.items() for partition in here.tasklets}
        taken: dict[tuple[str, str], list[int]] = {}
        for job, partition in sorted(running - self._running):
            taken.setdefault((job, self._owners.get((job, partition), "")), []).append(partition)
        for (job, before), partitions in taken.items():
            self._took(job, partitions, before)
        for job, partition in sorted(self._running - running):
            if job in node.jobs:
                logger.info("no longer runs partition %d of %s", partition, job)
        self._running = running
        self._owners = self._others()
        for job in node.failures.keys() - self._stopped:
            logger.error("%s stops everywhere: it cannot go on", job, exc_info=for_people(node.failures[job]))
        for job in node.stopped.keys() - node.failures.keys() - self._stopped:
            logger.info("%s was stopped: %s: %s", job, node.stopped[job].kind, node.stopped[job].reason)
        self._stopped |= node.failures.keys() | node.stopped.keys()

    def _took(self, job: str, partitions: list[int], before: str) -> None:
        what = f"partition{'s' if len(partitions) > 1 else ''} {', '.join(map(str, partitions))} of {job}"
        if not before:
            logger.info("runs %s", what)
        elif self._node.membership.died(before) and driver_token(before) == driver_token(self._node.name):
            logger.warning("takes over %s from %s, which has fallen silent", what, before)
        else:
            logger.info("takes over %s from %s", what, before)

    def _others(self) -> dict[tuple[str, int], str]:
        """Returns the owners of the partitions that other nodes run."""
        owners = {}
        for job, here in self._node.jobs.items():
            for partition in range(len(here.places)):
                for slot in range(self._node.settings.replicas):
                    owner = self._node.ownership.owner((job, partition, slot))
                    if owner is not None and owner.node != self._node.name:
                        owners[job, partition] = owner.node
        return owners


def driver_token(node: str) -> str:
    """Returns what tells the nodes of one driver from those of others, from the name of a node."""
    return node.partition("#")[2].partition(".")[0]


# --- in a driver's process --------------------------------------------------------------------------------------------


class LogRelay:
    """Passes the records of a driver's nodes on to its own `logging`."""

    def __init__(self, stream: SharedLog, token: str) -> None:
        self._stream = stream
        self._token = token
        self._cursor: Cursor = {}
        self._damaged = False

    def relay(self) -> None:
        """Passes on the new records; those of other drivers' nodes are left out.

        No run depends on them: if they are damaged, that is logged, and from then on nothing is passed on.
        """
        if self._damaged:
            return
        try:
            for message in self._stream.read(self._cursor, 1_000):
                if driver_token(message.writer) == self._token:
                    self._log(decode_log_record(message.data))
        except LogUnavailable:
            return
        except (LogDamaged, CodecError) as error:
            self._damaged = True
            logging.getLogger(_FAMILY).warning("what nodes log is no longer shown: %s", error)

    def _log(self, entry: NodeLogRecord) -> None:
        name = entry.node.partition("#")[0]
        logger = logging.getLogger(f"{_FAMILY}.{name}")
        if logger.isEnabledFor(entry.level):
            text = entry.text if entry.logger == "holons.node" else f"{entry.logger}: {entry.text}"
            record = logger.makeRecord(logger.name, entry.level, "", 0, visible(f"{name}: {text}"), (), None)
            record.created = entry.created
            logger.handle(record)
