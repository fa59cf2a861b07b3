"""A job's shared state on one node: kept up to date from the sync stream, stored now and then, restored by joiners."""

from __future__ import annotations

import zlib
from contextlib import suppress

import msgspec

from holons.errors import CheckpointLost, CodecError, RecordDamaged
from holons.node.ports import Ports
from holons.node.recovery import STATE, StateRecord, whole_records
from holons.node.settings import MESSAGES_MAX, Settings
from holons.program import Job, SharedState
from holons.store import Position
from holons.streams import STOOD_STILL_S, Cursor

REST_RATIO = 10.0  # after storing something, wait at least this many times as long as it took
_WORTHWHILE_RATIO = (
    4.0  # store a state only after this many times as many bytes of messages as it had when it was stored,
)
_NEGLIGIBLE_BYTES = 1 << 20  # except that this many bytes cost next to nothing


class StateKeeper:
    """Reads the sync stream of a job into its shared state, and stores that for nodes that join."""

    def __init__(self, name: str, job: Job, partitions: int, ports: Ports, settings: Settings) -> None:
        self._name = name
        self._job = job
        self._partitions = partitions
        self._ports = ports
        self._settings = settings
        self.sync = ports.sync(name)
        self._record = f"{name}/replica"
        self._received_s = ports.clock.now_s()
        self._forgotten = 0
        self.lost: CheckpointLost | None = None
        """Why there is no state. That matters if something of the job is still to be run."""
        try:
            self.state, self.cursor = self._newest()
        except CheckpointLost as error:
            self.lost, self.state, self.cursor = error, job.open_state(partitions), {}
        self._messages_since_store = self._bytes_since_store = 0
        self._stored_at_s = float("-inf")
        self._storing_s = 0.0
        self._stored_bytes = 0
        self._stored_last: Position | None = None
        self._cursors: dict[Position, Cursor] = {}
        """The cursors of durable snapshots, as far as they were read."""

    def receive(self) -> int | None:
        """Applies what the sync stream has brought, and returns how many messages that was.

        Returns None, and applies nothing, if messages were trimmed that this node has not read, or may have been while it
        stood still: then only a stored state helps (`restore`). That is checked after reading: somebody may trim the
        stream at any moment, and reading continues behind what is gone.
        """
        cursor, now_s = dict(self.cursor), self._ports.clock.now_s()
        messages = self.sync.read(cursor, MESSAGES_MAX)
        if any(start > self.cursor.get(writer, 0) for writer, start in self.sync.starts().items()):
            return None
        if now_s - self._received_s > STOOD_STILL_S:
            return None
        self._received_s = now_s
        self._forgotten += sum(self.cursor[writer] for writer in self.cursor.keys() - cursor.keys())
        self.cursor = cursor
        for message in messages:
            if self.state.receive(message.data):
                self._messages_since_store += 1
                self._bytes_since_store += len(message.data)
        return len(messages)

    def restore(self) -> None:
        """Starts again from the newest stored state that the sync stream still continues."""
        self._received_s = self._ports.clock.now_s()
        self.state, self.cursor = self._newest()

    def _newest(self) -> tuple[SharedState, Cursor]:
        starts = self.sync.starts()
        for _, stored, _ in whole_records(self._ports.store, self._record, STATE.header):
            if _continued(stored.cursor, starts):
                with suppress(CodecError):  # as if it were torn: an older one may be whole
                    state = self._job.open_state(self._partitions, stored.state)
                    self._forgotten = stored.forgotten
                    return state, stored.cursor
        if self.sync.starts() != starts:  # what was stored meanwhile may know more, or no longer know who was forgotten
            return self._newest()
        if any(starts.values()):
            raise CheckpointLost(
                f"{self._name}: the sync stream was trimmed, and no snapshot of its state reaches back so far",
                hint="restore the checkpoint store, or resubmit the job",
            )
        return self._job.open_state(self._partitions), {}

    def store_if_due(self) -> None:
        """Stores the state, and trims the sync stream below what this node stored the time before.

        What is newer may be news to others: a node that has not read what is trimmed must begin again from a snapshot. The
        sync stream still continues every snapshot that is kept: two at least.
        Never while messages wait for a missing one: the cursor is past them, and the snapshot would not hold them. Much
        state takes long to store, and is stored less often: it is for nodes that join, and must not cost the others much.
        """
        now_s = self._ports.clock.now_s()
        if not self._due(now_s) or self.state.gaps():
            return
        store, position = self._ports.store, self._position()
        state = msgspec.Raw(self.state.snapshot_bytes())
        data = STATE.encode(StateRecord(dict(sorted(self.cursor.items())), state, self._forgotten))
        store.put(self._record, position, data)
        self._cursors[position] = dict(self.cursor)
        self._messages_since_store, self._bytes_since_store, self._stored_bytes, self._stored_at_s = (
            0,
            0,
            len(data),
            now_s,
        )
        before, self._stored_last = self._stored_last, position
        kept = self._durable_cursors(before) if before is not None else []
        if before is not None and len(kept) >= 2:
            self.sync.trim({writer: min(cursor.get(writer, 0) for cursor in kept) for writer in kept[0]})
            store.drop(self._record, before)
        self._storing_s = self._ports.clock.now_s() - now_s

    def _due(self, now_s: float) -> bool:
        rest_s = max(self._settings.checkpoint_s, REST_RATIO * self._storing_s)
        worthwhile = self._bytes_since_store >= _WORTHWHILE_RATIO * (self._stored_bytes - _NEGLIGIBLE_BYTES)
        enough = self._messages_since_store >= self._settings.snapshot_deltas
        return enough and worthwhile and now_s - self._stored_at_s >= rest_s

    def _position(self) -> Position:
        """A position at which nobody else stores a state: others may have read as much, but not the same."""
        return self._forgotten + sum(self.cursor.values()), zlib.crc32(self.sync.writer.encode())

    def _durable_cursors(self, first: Position) -> list[Cursor]:
        """The cursors of the durable snapshots from a position on that are whole and of use, oldest first."""
        store, starts = self._ports.store, self.sync.starts()
        known, self._cursors = self._cursors, {}
        for position in store.durable(self._record):
            with suppress(RecordDamaged, CodecError):  # torn, or gone by now
                self._cursors[position] = known.get(position) or STATE.header(store.get(self._record, position)).cursor
        return [cursor for at, cursor in sorted(self._cursors.items()) if at >= first and _continued(cursor, starts)]


def _continued(cursor: Cursor, starts: Cursor) -> bool:
    """Whether the sync stream still has all that follows a snapshot."""
    return all(cursor.get(writer, 0) >= start for writer, start in starts.items())
