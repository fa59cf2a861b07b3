"""A store in the memory of other nodes: no disk, and a record is a message away.

Every record is held by the node that put it and by `copies` others, chosen by rendezvous hashing among the live. Only
then is it durable, so that what it covers may be trimmed. When a holder dies, those that are left hand the record to
somebody else; so up to `copies` nodes may die within the time that this takes, and nothing is lost.

Nodes write to each other over a shared stream whose letters may come late, twice, in any order, or never: everything is
said again until it is answered. What a node knows only grows: who holds a record (a holder lets go of it only once it
was dropped, and a restarted node has another name) and below which position all was dropped. So no order is wrong.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from holons.clock import Clock
from holons.errors import CodecError, StoreUnavailable
from holons.names import encoded
from holons.rendezvous import preference
from holons.store.letters import Ask, Holds, Letter, Put, Want, decode
from holons.store.records import missing, parse_position, position_text
from holons.store.store import Position
from holons.wire import encode

_LETTERS_MAX: Final = 10_000
_NEVER: Final = float("-inf")
_Key = tuple[str, Position]


class Mailed(Protocol):
    """One message of a shared stream."""

    @property
    def writer(self) -> str: ...

    @property
    def data(self) -> bytes: ...


class Mail(Protocol):
    """A shared stream, opened by one node incarnation: what the grid needs of it."""

    @property
    def writer(self) -> str: ...

    def append(self, data: bytes) -> int: ...

    def read(self, cursor: dict[str, int], count_max: int) -> Sequence[Mailed]: ...

    def trim(self, below: dict[str, int]) -> None: ...


@dataclass
class _Record:
    """What is known of a record; `data` if it is held here."""

    data: bytes | None = None
    writer: str = ""
    holders: set[str] = field(default_factory=set)
    sent_s: dict[str, float] = field(default_factory=dict)
    """When it was last sent to whom, by anybody."""


@dataclass
class _Question:
    number: int
    used_s: float
    answered: set[str] = field(default_factory=set)
    asked_s: float = _NEVER
    complete_s: float | None = None


@dataclass
class _Wanted:
    sent_s: float = _NEVER
    tries: int = 0


class _Intervals(NamedTuple):
    """How long a grid waits, in seconds; see `GridStore`."""

    retry_s: float
    remind_s: float
    mail_s: float
    answer_s: float


class GridStore:
    """One node's part of the grid; `mail.writer` is the node's name, and never used twice.

    `tend` does all the talking; nothing ever waits. `positions` and `get` are for recovery: they ask the live nodes, raise
    `StoreUnavailable` until these have answered, and take any record that one of them holds. `durable` is for
    trimming: it only lists what is held here and by `copies` live others. With fewer others alive nothing is durable,
    so nothing is trimmed, and the logs grow until somebody joins.

    `retry_s` is when something unanswered is said again, `remind_s` how often a node says what it holds, `mail_s` how
    long its letters stay in the stream, `answer_s` how long an answer may be used.
    """

    def __init__(
        self,
        mail: Mail,
        clock: Clock,
        copies: int = 2,
        *,
        retry_s: float = 0.3,
        remind_s: float = 2.0,
        mail_s: float = 5.0,
        answer_s: float = 5.0,
    ) -> None:
        self._mail = mail
        self._me = mail.writer
        self._clock = clock
        self._copies = copies
        self._intervals = _Intervals(retry_s, remind_s, mail_s, answer_s)
        self._live: frozenset[str] | None = None
        self._records: dict[str, dict[Position, _Record]] = {}
        self._dropped: dict[str, Position] = {}
        """Below which position all records of a name were dropped."""
        self._short: set[_Key] = set()
        """Records that may lack holders."""
        self._changed: set[str] = set()
        """Names of which the others are to be told."""
        self._answers: list[tuple[str, int]] = []
        self._numbers = itertools.count()
        self._questions: dict[str, _Question] = {}
        self._wanted: dict[_Key, _Wanted] = {}
        self._requests: deque[tuple[_Key, str]] = deque()
        self._cursor: dict[str, int] = {}
        self._sent: deque[tuple[int, float]] = deque()
        self._gone_s: dict[str, float] = {}
        self._reminded_s = _NEVER

    # --- the store ---------------------------------------------------------------------------------------------------

    def put(self, name: str, position: Position, data: bytes) -> None:
        """Holds a record, and hands it to others in time: it is durable once `durable` lists it.

        What comes below a position that was dropped is not kept. Where two nodes put the same record, each holds its
        own: both are good ones.
        """
        name = encoded(name)
        position_text(position)  # says so if it is too long for a letter
        record = self._known(name, position)
        if record is not None and record.data is None:
            self._hold(name, position, record, data, self._me)

    def positions(self, name: str) -> list[Position]:
        name = encoded(name)
        question = self._question(name)
        silent = sorted(self._others() - question.answered)
        if self._live is None or silent:
            raise StoreUnavailable(
                f"the grid does not answer yet: {', '.join(silent) or 'nobody is known to be alive'}",
                hint="it is asked again until all live nodes have answered",
            )
        if question.complete_s is None:
            question.complete_s = self._clock.now_s()
        reachable = self._others() | {self._me}
        return sorted(at for at, record in self._records.get(name, {}).items() if record.holders & reachable)

    def durable(self, name: str) -> list[Position]:
        records = self._records.get(encoded(name), {})
        return sorted(at for at, record in records.items() if record.data is not None and self._lacks(record) <= 0)

    def get(self, name: str, position: Position) -> bytes:
        record = self._records.get(encoded(name), {}).get(position)
        if record is not None and record.data is not None:
            return record.data
        if record is None or not record.holders & self._others():
            raise missing(name, position, f"the grid, as {self._me} sees it")
        self._wanted.setdefault((encoded(name), position), _Wanted())
        raise StoreUnavailable(f"{name} at {position} is on its way", hint="it is asked for until it is here")

    def drop(self, name: str, below: Position) -> None:
        name = encoded(name)
        if self._raise_floor(name, below):
            self._changed.add(name)

    def tend(self, live: Sequence[str]) -> bool:
        now_s = self._clock.now_s()
        changed = self._live != frozenset(live)
        self._live = frozenset(live)
        if changed or now_s - self._reminded_s >= self._intervals.remind_s:
            self._short.update((name, at) for name, records in self._records.items() for at in records)
        self._listen(now_s)
        self._hand_out(now_s)
        self._ask(now_s)
        self._tell(now_s)
        return self._me not in self._live and self._handed_over()

    def bytes_held(self) -> int:
        """Returns the size of all records that are held here."""
        held = [record.data for records in self._records.values() for record in records.values()]
        return sum(len(data) for data in held if data is not None)

    # --- what is known -----------------------------------------------------------------------------------------------

    def _others(self) -> frozenset[str]:
        return (self._live or frozenset()) - {self._me}

    def _known(self, name: str, position: Position) -> _Record | None:
        """Returns what is known of a record; None if it was dropped."""
        if position < self._dropped.get(name, ()):
            return None
        return self._records.setdefault(name, {}).setdefault(position, _Record())

    def _hold(self, name: str, position: Position, record: _Record, data: bytes, writer: str) -> None:
        record.data, record.writer = data, writer
        record.holders.add(self._me)
        self._short.add((name, position))
        self._changed.add(name)

    def _raise_floor(self, name: str, below: Position) -> bool:
        if below <= self._dropped.get(name, ()):
            return False
        self._dropped[name] = below
        records = self._records.get(name, {})
        for position in [position for position in records if position < below]:
            del records[position]
        if not records:
            self._records.pop(name, None)
        return True

    def _lacks(self, record: _Record) -> int:
        """Returns how many more live nodes should hold a record. A node that leaves does not count, be it this one."""
        return self._copies + 1 - len(record.holders & (self._live or frozenset()))

    def _question(self, name: str) -> _Question:
        now_s, question = self._clock.now_s(), self._questions.get(name)
        old = (
            question is not None
            and question.complete_s is not None
            and now_s - question.complete_s > self._intervals.answer_s
        )
        if question is None or old:
            question = self._questions[name] = _Question(next(self._numbers), now_s)
        question.used_s = now_s
        return question

    def _handed_over(self) -> bool:
        """Whether every record here is held by so many others that this node may go."""
        enough = min(self._copies + 1, max(len(self._others()), 1))
        held = [record for records in self._records.values() for record in records.values() if record.data is not None]
        return all(len(record.holders & self._others()) >= enough for record in held)

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _listen(self, now_s: float) -> None:
        for mailed in self._mail.read(self._cursor, _LETTERS_MAX):
            if mailed.writer == self._me:
                continue
            letter = decode(mailed.data)
            if isinstance(letter, Put):
                self._take_put(mailed.writer, letter, now_s)
            elif isinstance(letter, Holds):
                self._take_holds(mailed.writer, letter)
            elif isinstance(letter, Ask):
                self._changed.add(letter.name)
                self._answers.append((mailed.writer, letter.number))
            elif letter.of == self._me:
                self._requests.append(((letter.name, _position(letter.position)), mailed.writer))

    def _take_put(self, sender: str, letter: Put, now_s: float) -> None:
        position = _position(letter.position)
        record = self._known(letter.name, position)
        if record is None:
            self._changed.add(letter.name)  # the sender has not heard that it was dropped
            return
        record.holders.add(sender)
        record.sent_s.update(dict.fromkeys(letter.to, now_s))
        if self._me in letter.to:
            if record.data is None:
                self._hold(letter.name, position, record, letter.data, letter.writer)
            self._changed.add(letter.name)

    def _take_holds(self, sender: str, letter: Holds) -> None:
        for name, (below, positions) in letter.names.items():
            if _position(below) < self._dropped.get(name, ()):
                self._changed.add(name)
            self._raise_floor(name, _position(below))
            for position in map(_position, positions):
                record = self._known(name, position)
                if record is not None:
                    record.holders.add(sender)
        for asker, number in letter.answers:
            if asker == self._me:
                for question in self._questions.values():
                    if question.number == number:
                        question.answered.add(sender)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _send(self, letter: Letter) -> None:
        self._sent.append((self._mail.append(encode(letter)), self._clock.now_s()))

    def _hand_out(self, now_s: float) -> None:
        """Sends records to those that should hold them, and to those that want them."""
        for name, position in sorted(self._short):
            record = self._records.get(name, {}).get(position)
            if record is None or record.data is None or self._lacks(record) <= 0 or not self._responsible(name, record):
                self._short.discard((name, position))
                continue
            free = preference(name, self._others() - record.holders)[: self._lacks(record)]
            to = [node for node in free if now_s - record.sent_s.get(node, _NEVER) >= self._intervals.retry_s]
            if to:
                self._send(Put(name, position_text(position), record.data, record.writer, tuple(to)))
                record.sent_s.update(dict.fromkeys(to, now_s))
        while self._requests:
            (name, position), asker = self._requests[0]
            record = self._records.get(name, {}).get(position)
            if record is not None and record.data is not None:
                self._send(Put(name, position_text(position), record.data, record.writer, (asker,)))
            self._requests.popleft()

    def _responsible(self, name: str, record: _Record) -> bool:
        """Whether it is this node that finds new holders: the writer, else the first of the holders that are alive."""
        live = self._live or frozenset()
        if self._me == record.writer or self._me not in live:
            return True
        return record.writer not in live and preference(name, record.holders & live)[0] == self._me

    def _ask(self, now_s: float) -> None:
        for name, question in list(self._questions.items()):
            if now_s - question.used_s > self._intervals.answer_s:
                del self._questions[name]
            elif self._others() - question.answered and now_s - question.asked_s >= self._intervals.retry_s:
                self._send(Ask(name, question.number))
                question.asked_s = now_s
        for (name, position), wanted in list(self._wanted.items()):
            record = self._records.get(name, {}).get(position)
            holders = [] if record is None else preference(name, record.holders & self._others())
            if record is None or record.data is not None or not holders:
                del self._wanted[name, position]
            elif now_s - wanted.sent_s >= self._intervals.retry_s:
                self._send(Want(name, position_text(position), holders[wanted.tries % len(holders)]))
                wanted.sent_s, wanted.tries = now_s, wanted.tries + 1

    def _tell(self, now_s: float) -> None:
        """Says what is held of the names that were asked for or have changed; of all names, now and then."""
        remind = now_s - self._reminded_s >= self._intervals.remind_s
        if remind:
            self._changed.update(self._records)
        if self._changed or self._answers:
            changes = {name: (position_text(self._dropped.get(name, ())), self._held(name)) for name in self._changed}
            self._send(Holds(dict(sorted(changes.items())), tuple(self._answers)))
            self._changed.clear()
            self._answers.clear()
        if remind:
            self._trim(now_s)
            self._reminded_s = now_s

    def _held(self, name: str) -> tuple[str, ...]:
        records = self._records.get(name, {})
        return tuple(position_text(at) for at in sorted(records) if records[at].data is not None)

    def _trim(self, now_s: float) -> None:
        """Takes old letters out of the stream: this node's own, and what was read of those that are long gone."""
        below: dict[str, int] = {}
        while self._sent and now_s - self._sent[0][1] > self._intervals.mail_s:
            below[self._me] = self._sent.popleft()[0] + 1
        for writer, position in self._cursor.items():
            if writer in (self._live or ()) or writer == self._me:
                self._gone_s.pop(writer, None)
            elif now_s - self._gone_s.setdefault(writer, now_s) > self._intervals.mail_s:
                below[writer] = position
        if below:
            self._mail.trim(below)


def _position(text: str) -> Position:
    position = parse_position(text)
    if position is None:
        raise CodecError(f"not a position: {text!r}", hint="the grid's stream is damaged, or not ours")
    return position
