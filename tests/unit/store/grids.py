"""Some nodes of a grid in one process, over mail that may be lost, late, repeated and shuffled."""

from __future__ import annotations

import random

from holons.errors import StoreUnavailable
from holons.store import GridStore
from holons.streams import MemoryHub

ROUNDS_MAX = 400


class Clock:
    """Time that the test moves."""

    def __init__(self):
        self.s = 0.0

    def now_s(self):
        return self.s


class BadMail:
    """A shared stream, read badly."""

    def __init__(self, log, rng):
        self._log, self._rng, self._late = log, rng, []
        self.writer, self.append, self.trim = log.writer, log.append, log.trim

    def read(self, cursor, count_max):
        self._late += self._log.read(cursor, count_max)
        self._rng.shuffle(self._late)
        now, self._late = self._late[: len(self._late) * 2 // 3 + 1], self._late[len(self._late) * 2 // 3 + 1 :]
        return [message for message in now for _ in range(self._rng.choice([0, 1, 1, 1, 2]))]


class Grid:
    """Stores by the names of their nodes."""

    def __init__(self, nodes, copies, seed=None):
        self.clock, self.hub = Clock(), MemoryHub()
        self._copies, self._rng = copies, None if seed is None else random.Random(seed)
        self.stores = {}
        self.leaving = set()
        for node in nodes:
            self.join(node)

    def join(self, node):
        mail = self.hub.open(node)
        store = GridStore(mail if self._rng is None else BadMail(mail, self._rng), self.clock, self._copies)
        self.stores[node] = store
        return store

    def die(self, *nodes):
        for node in nodes:
            del self.stores[node]

    def turn(self, *nodes):
        """Everybody, or only some, have a turn; returns who may go."""
        self.clock.s += 0.05
        live = [node for node in self.stores if node not in self.leaving]
        return {node for node in nodes or list(self.stores) if self.stores[node].tend(live)}

    def until(self, done):
        """Turns until something is so."""
        for _ in range(ROUNDS_MAX):
            if done():
                return
            self.turn()
        raise AssertionError("it never came about")

    def settle(self, rounds=60):
        for _ in range(rounds):
            self.turn()

    def answer(self, use):
        """What a store says once the others have answered."""
        for _ in range(ROUNDS_MAX):
            try:
                return use()
            except StoreUnavailable:
                self.turn()
        raise AssertionError("it never answered")

    def holders(self, name):
        """Who holds which positions of a name, in truth."""
        return {
            node: [at for at, record in sorted(store._records.get(name, {}).items()) if record.data is not None]
            for node, store in self.stores.items()
        }


class PatientGrid:
    """Three nodes as one store: put through one, read through another, and wait for every answer."""

    def __init__(self):
        self._grid = Grid(["a", "b", "c"], copies=2)
        self._grid.turn()

    def put(self, name, position, data):
        self._grid.stores["a"].put(name, position, data)
        for _ in range(3):
            self._grid.turn()

    def positions(self, name):
        found = self._grid.answer(lambda: self._grid.stores["b"].positions(name))
        assert self._grid.stores["a"].durable(name) == found
        return found

    def get(self, name, position):
        return self._grid.answer(lambda: self._grid.stores["c"].get(name, position))

    def drop(self, name, below):
        self._grid.stores["a"].drop(name, below)
        for _ in range(3):
            self._grid.turn()

    def bytes_held(self):
        return self._grid.stores["a"].bytes_held()
