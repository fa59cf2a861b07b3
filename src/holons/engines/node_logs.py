"""What node processes log reaches their driver through a stream of the site: plain data, bounded, and never unpickled.

In a node's process everything that is logged at the driver's own level or above goes to the stream: the node's own
words, the program's, warnings, and what ends the process. The driver hands it to its own `logging`, under
`holons.nodes.<node>`, while it watches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec

from holons import wire
from holons.engines.tracebacks import for_people
from holons.errors import PromiseBroken
from holons.node import Node, Ports
from holons.streams import Cursor, SharedLog

_TEXT_MAX = 10_000
_KEPT = 1_000
_TRIM_EVERY = 100
_SELDOM_S = 10.0
_FAMILY = "holons.nodes"

logger = logging.getLogger("holons.node")
_trouble = logging.getLogger("holons.node.trouble")


class Said(msgspec.Struct, frozen=True, array_like=True, tag="said"):
    """One record of Python's logging."""

    node: str
    created: float
    """Seconds since 1970, by the node's clock."""
    level: int
    logger: str
    text: str

    @property
    def level_name(self) -> str:
        """WARNING, or the like."""
        return logging.getLevelName(self.level)


decode_said: Callable[[bytes], Said] = wire.decoder(Said, "a log record", "the stream of log records")


def level_wanted() -> int:
    """From which level on this process wants to hear its nodes: WARNING, unless its logging says otherwise."""
    return logging.getLogger(_FAMILY).getEffectiveLevel()


# --- in a node's process ----------------------------------------------------------------------------------------------


@contextmanager
def forwarding(stream: SharedLog, level: int) -> Iterator[None]:
    """Whatever this process logs meanwhile goes to the stream; so does what ends it."""
    handler, root = _ToStream(stream), logging.getLogger()
    handler.addFilter(_Seldom())
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


class _ToStream(logging.Handler):
    """Appends records to a stream, of which it keeps the newest."""

    def __init__(self, stream: SharedLog) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)[:_TEXT_MAX]
            said = Said(self._stream.writer, record.created, record.levelno, record.name, text)
            position = self._stream.append(wire.encode(said))
            if position % _TRIM_EVERY == _TRIM_EVERY - 1:
                self._stream.trim({self._stream.writer: max(0, position - _KEPT)})
        except Exception:  # noqa: BLE001 - as logging does: a record that cannot be told must not end anything
            self.handleError(record)


class _Seldom(logging.Filter):
    """Lets each place in the code speak once in a while, and then say how often it wanted to."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place = record.pathname, record.lineno
        told_s, unsaid = self._told.get(place, (float("-inf"), 0))
        if record.name != logger.name and record.created - told_s < _SELDOM_S:
            self._told[place] = told_s, unsaid + 1
            return False
        self._told[place] = record.created, 0
        if unsaid:
            record.msg, record.args = f"{record.getMessage()} (and {unsaid} like it before)", None
        return True


def telling(ports: Ports) -> Ports:
    """The same ports; a log or store that does not answer is logged. Nodes try again in silence."""
    return replace(
        ports,
        heartbeats=_Telling(ports.heartbeats),
        control=_Telling(ports.control),
        sync=lambda job: _Telling(ports.sync(job)),
        input=lambda stream: _Telling(ports.input(stream)),
        output=lambda job, channel, partitions: _Telling(ports.output(job, channel, partitions)),
        store=_Telling(ports.store),
    )


class _Telling:
    """Stands for a log or a store."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the port has
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def told(*given: object, **named: object) -> object:
            try:
                return found(*given, **named)
            except OSError as error:
                _trouble.warning("%s", error)
                raise

        setattr(self, name, told)
        return told


class Diary:
    """Logs what a person wants to know of a node: what it takes over, what it lets go, which jobs have stopped."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._running: set[tuple[str, int]] = set()
        self._owners: dict[tuple[str, int], str] = {}
        self._stopped: set[str] = set()

    def look(self) -> None:
        """Tells what has changed since the last time."""
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
        elif self._node.membership.died(before) and _driver(before) == _driver(self._node.name):
            logger.warning("takes over %s from %s, which has fallen silent", what, before)
        else:
            logger.info("takes over %s from %s", what, before)

    def _others(self) -> dict[tuple[str, int], str]:
        """Who else holds what does not run here."""
        owners = {}
        for job, here in self._node.jobs.items():
            for partition in range(len(here.places)):
                for slot in range(self._node.settings.replicas):
                    owner = self._node.ownership.owner((job, partition, slot))
                    if owner is not None and owner.node != self._node.name:
                        owners[job, partition] = owner.node
        return owners


def _driver(node: str) -> str:
    return node.partition("#")[2].partition(".")[0]


# --- in a driver's process --------------------------------------------------------------------------------------------


class Relay:
    """Hands what a driver's nodes log to its own `logging`."""

    def __init__(self, stream: SharedLog, token: str) -> None:
        self._stream = stream
        self._token = token
        self._cursor: Cursor = {}

    def relay(self) -> None:
        """Takes what is new; that of other drivers' nodes is not for us."""
        with suppress(OSError):
            for message in self._stream.read(self._cursor, 1_000):
                if _driver(message.writer) == self._token:
                    self._say(decode_said(message.data))

    def _say(self, said: Said) -> None:
        name = said.node.partition("#")[0]
        logger = logging.getLogger(f"{_FAMILY}.{name}")
        if logger.isEnabledFor(said.level):
            text = said.text if said.logger == "holons.node" else f"{said.logger}: {said.text}"
            record = logger.makeRecord(logger.name, said.level, "", 0, f"{name}: {text}", (), None)
            record.created = said.created
            logger.handle(record)
