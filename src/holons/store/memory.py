"""A store in this process's memory."""

from __future__ import annotations

from collections.abc import Sequence

from holons.errors import RecordDamaged
from holons.store.store import Position


class MemoryStore:
    """Records in a dictionary, for tests and for the simulator."""

    def __init__(self) -> None:
        self._records: dict[str, dict[Position, bytes]] = {}

    def put(self, name: str, position: Position, data: bytes) -> None:
        self._records.setdefault(name, {}).setdefault(position, data)

    def replace(self, name: str, position: Position, data: bytes) -> None:
        """Puts a record in place of another: what the simulator needs to tear one."""
        self._records.setdefault(name, {})[position] = data

    def names(self) -> list[str]:
        """Returns the names under which there are records."""
        return [name for name, records in self._records.items() if records]

    def positions(self, name: str) -> list[Position]:
        return sorted(self._records.get(name, {}))

    def durable(self, name: str) -> list[Position]:
        return self.positions(name)

    def get(self, name: str, position: Position) -> bytes:
        data = self._records.get(name, {}).get(position)
        if data is None:
            raise RecordDamaged(f"there is no record {name} at {position}")
        return data

    def drop(self, name: str, below: Position) -> None:
        records = self._records.get(name, {})
        for position in [position for position in records if position < below]:
            del records[position]

    def lose(self, name: str, position: Position) -> None:
        """Loses a record, as a machine that dies does with what it has not synced."""
        del self._records[name][position]

    def tend(self, live: Sequence[str]) -> bool:
        return True

    def bytes_held(self) -> int:
        """Returns the size of all records."""
        return sum(len(data) for records in self._records.values() for data in records.values())
