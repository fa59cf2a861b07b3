"""A rig that runs a job's partitions in the worst possible way, from a seed.

Logs are cut anywhere, runs are thrown away and rebuilt from older records, replicas get deltas late, twice, merged and
out of order. Whatever it does, the outputs must be the oracle's, byte for byte.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl

from holons import codec
from holons.counting import Samples
from holons.program import Collected, Job, Output, ProgramRun, Records
from holons.semantics.oracle import Stamped
from holons.wcrdt import Delta, Replica
from holons.windows import Mark

Piece = pl.DataFrame | Stamped | Mark
PartitionLog = Sequence[Piece]


class Rig:
    """Some replicas, one run per partition, and a network that misbehaves."""

    def __init__(self, job: Job, streams: dict[str, list[PartitionLog]], seed: int, replicas: int = 2) -> None:
        self.random = random.Random(seed)
        self.job = job
        self.logs = [(index, log) for index, given in enumerate(job.inputs) for log in streams[given.stream]]
        self.replicas = [Replica(job.layout.handles, len(self.logs)) for _ in range(replicas)]
        self.sent: list[Delta | Samples] = []
        self.inboxes: list[list[Delta | Samples]] = [[] for _ in range(replicas)]
        self.rows: dict[tuple[str, int, int], bytes] = {}
        self.records: list[list[Records]] = [[Records()] for _ in self.logs]
        self.runs = [self._build(number, Records()) for number in range(len(self.logs))]

    def _build(self, number: int, records: Records) -> ProgramRun:
        index, _ = self.logs[number]
        return ProgramRun(self.job, number, len(self.logs), input_index=index, resume=records)

    def _replica(self, number: int) -> Replica:
        return self.replicas[number % len(self.replicas)]

    # --- one step at a time ----------------------------------------------------------------------------------------

    def feed(self, number: int, rows_max: int) -> bool:
        """Feeds the next rows (or the next mark) of a log."""
        run, offset = self.runs[number], 0
        position = run.progress.read_to
        log = self.logs[number][1]
        for place, piece in enumerate(log):
            length = 1 if isinstance(piece, Mark) else len(_rows_of(piece))
            if position < offset + length:
                if isinstance(piece, Mark):
                    run.mark(piece.ts, position)
                elif isinstance(piece, Stamped):
                    self._feed_stamped(run, log[place:], position - offset, rows_max)
                else:
                    self._feed_rows(run, piece.slice(position - offset, rows_max), position)
                return True
            offset += length
        return False

    def _feed_stamped(self, run: ProgramRun, following: PartitionLog, skip: int, rows_max: int) -> None:
        """Feeds rows of one or several batches at once, as a log joins them, with the times at which they were appended."""
        rows, appended = list[pl.DataFrame](), list[tuple[int, int, bool]]()
        for piece in following:
            if not isinstance(piece, Stamped) or (rows and rows_max <= 0):
                break
            rows.append(_rows_of(piece).slice(skip, rows_max))
            appended.append((len(rows[-1]), piece.appended, piece.live))
            rows_max, skip = rows_max - len(rows[-1]), 0
        self._feed_rows(run, pl.concat(rows), run.progress.read_to, appended)

    def _feed_rows(
        self, run: ProgramRun, rows: pl.DataFrame, position: int, appended: Sequence[tuple[int, int, bool]] = ()
    ) -> None:
        """Rows as a log gives them: whole, or only what the program reads and the rest on demand."""
        reads = run.reads
        if reads is None or self.random.random() < 0.3:
            run.feed(rows, position, None, appended)
        else:
            seen = rows.select(name for name in rows.columns if name in reads)
            run.feed(seen, position, rows.to_arrow, appended)

    def work(self, number: int) -> bool:
        """Lets a partition do something, and takes what it gives."""
        happened = self.runs[number].step(self._replica(number))
        outputs, messages = self.runs[number].drain()
        for output in outputs:
            self._take(output)
        for message in messages:
            self.sent.append(message)
            for inbox in self.inboxes:
                inbox.append(message)
        return happened

    def _take(self, output: Output) -> None:
        for place, row in enumerate(output.table.to_pylist(), start=output.ordinal):
            position = (output.channel, output.partition, place)
            data = codec.encode(row)
            assert self.rows.setdefault(position, data) == data, f"position is identity: {position}"

    def deliver(self, replica: int) -> bool:
        """Delivers something from an inbox: any message, perhaps twice; a delta perhaps merged with a neighbour."""
        inbox = self.inboxes[replica]
        if not inbox:
            return False
        message = inbox.pop(self.random.randrange(len(inbox)))
        if isinstance(message, Delta):
            deltas, own = [d for d in inbox if isinstance(d, Delta)], (message.stage, message.partition, message.end)
            following = [delta for delta in deltas if (delta.stage, delta.partition, delta.start) == own]
            if following and self.random.random() < 0.3:
                message = message.then(following[0])
        self.replicas[replica].take_in(message)
        if self.random.random() < 0.2:
            self.replicas[replica].receive(message.encode())
        return True

    def lose(self, replica: int) -> None:
        """A replica loses what was on its way, and is sent everything again: the sync stream is a log."""
        self.inboxes[replica] = list(self.sent)

    def restart_replica(self, replica: int) -> None:
        """A replica is rebuilt from its own snapshot; deltas that waited are gone and must come again."""
        stored = self.replicas[replica].snapshot_bytes()
        self.replicas[replica] = Replica.resumed(self.job.layout.handles, len(self.logs), stored)
        self.lose(replica)

    def store(self, number: int) -> None:
        """Stores a checkpoint."""
        self.records[number].append(self.runs[number].snapshot())

    def crash(self, number: int) -> None:
        """Throws a run away and rebuilds it: each of its two records may be any that was stored."""
        stored = self.records[number]
        process = self.random.choice(stored).process
        self.runs[number] = self._build(number, Records(process, self.random.choice(stored).window))

    # --- all of it -------------------------------------------------------------------------------------------------

    def run(self, rows_max: int, mischief: float = 0.1) -> Collected:
        """Runs everything to the end, badly."""
        crashes = 0
        while True:
            number = self.random.randrange(len(self.runs))
            if self.random.random() < mischief:
                self.store(number)
            if crashes < 12 and self.random.random() < mischief:
                crashes += 1
                self.crash(number)
            if self.random.random() < mischief / 4:
                self.restart_replica(self.random.randrange(len(self.replicas)))
            if self.random.random() < 0.7:
                self.feed(number, self.random.randint(0 if rows_max > 1 else 1, rows_max))
            for _ in range(self.random.randint(0, 3)):
                self.work(number)
            for replica in range(len(self.replicas)):
                for _ in range(self.random.randint(0, 3)):
                    self.deliver(replica)
            if self.random.random() < 0.05 and self._finish_quietly(rows_max):
                return self.collected()

    def _finish_quietly(self, rows_max: int) -> bool:
        """Once in a while: no more mischief until nothing happens any more. True if the logs are at their end."""
        if any(self.feed(number, max(1, rows_max)) for number in range(len(self.runs))):
            return False
        happened = True
        while happened:
            worked = [self.work(number) for number in range(len(self.runs))]
            delivered = [self.deliver(replica) for replica in range(len(self.replicas))]
            happened = any(worked) or any(delivered)
        return True

    def collected(self) -> Collected:
        """All outputs, in the order of their positions."""
        collected: Collected = {}
        for (channel, partition, place), data in sorted(self.rows.items()):
            rows = collected.setdefault(channel, {}).setdefault(partition, [])
            assert place == len(rows), f"a hole in {channel} of partition {partition} before {place}"
            rows.append(codec.decode(data))
        return collected


def _rows_of(piece: pl.DataFrame | Stamped) -> pl.DataFrame:
    rows = piece.batch if isinstance(piece, Stamped) else piece
    assert isinstance(rows, pl.DataFrame)
    return rows
