"""A program folded over a streaming DataFrame, a round for each micro-batch, exactly once.

    <site>/folds/<name>/
        fold.json       which program, over how many partitions
        lock            held by the query that is running
        spark/          Spark's own checkpoint
        state/          the fold after each of the last two rounds
    <site>/output/fold-<name>/<channel>     what it has put out, at positions, as nodes do

A round first puts out, then stores its state. One that was killed in between is run again by Spark, with the same rows,
and puts the same rows at the same positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from holons import disk
from holons.engines.collecting import fold_id, folded
from holons.engines.locks import locked
from holons.engines.results import Results
from holons.engines.spark.folding import Places, round_of
from holons.errors import BadInput, CheckpointLost, DescribedError, JobRunning, RecordDamaged
from holons.node import SiteWithFolders
from holons.program import Job, Output
from holons.program.folding import Fold
from holons.store import DirectoryStore
from holons.streams import WritableLog
from holons.wire import UNREADABLE

_KEPT = 2
_FINISHED = 1 << 62


class Folding(msgspec.Struct, frozen=True):
    """What is being folded under a name."""

    job: str
    digest: str
    partitions: int


class Rounds:
    """The fold of one job in one site: takes micro-batches, and survives its process."""

    def __init__(self, job: Job, site: SiteWithFolders, places: Places) -> None:
        assert places.count is not None
        self.job = job
        self.site = site
        self.places = places
        self.directory = site.folder("folds", job.name)
        self.error: DescribedError | None = None
        self._held = ExitStack()
        self._logs: dict[str, WritableLog] = {}
        self._fold: Fold | None = None
        self._done = -1
        self._store = DirectoryStore(str(self.directory / "state"), durability=site.durability)

    def open(self) -> None:
        """Takes the lock; says if it is somebody else's, or another program's."""
        busy = JobRunning(
            f"{self.job.name!r} is being folded in {self.site.name} by another query",
            hint="stop that one first, or give this job another name",
        )
        self._held.enter_context(locked(self.directory / "lock", 0.0, busy))
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        file = self.directory / "fold.json"
        assert self.places.count is not None
        mine = Folding(self.job.name, self.job.digest, self.places.count)
        if file.exists():
            try:
                known = msgspec.json.decode(file.read_bytes(), type=Folding)
            except UNREADABLE as error:
                raise RecordDamaged(
                    f"{file} is damaged: {error}", hint="restore it from a copy, or fold it anew under another name"
                ) from error
            if known != mine:
                what = "another program" if known.partitions == mine.partitions else f"{known.partitions} partitions"
                raise BadInput(
                    f"{self.job.name!r} in {self.site.name} was begun with {what}",
                    hint="its rows stand: give this job another name, or use another directory",
                )
        else:
            part = file.with_suffix(".part")
            disk.write(part, msgspec.json.encode(mine), durable=self.site.durability == "disk")
            part.rename(file)

    def close(self) -> None:
        """Lets others go on."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        self._held.close()

    # --- rounds ------------------------------------------------------------------------------------------------------

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch; called by Spark, again for one whose end it did not see."""
        try:
            fold = self._resumed(batch)
            if fold is not None:
                self._keep(fold, batch, fold.take(round_of(fold, frame, self.places)))
        except DescribedError as error:
            self.error = error
            raise RuntimeError(str(error)) from error  # what Spark can tell

    def finish(self) -> None:
        """No rows come any more: puts out what is left."""
        fold = self._resumed(_FINISHED)
        if fold is not None:
            self._keep(fold, _FINISHED, fold.finish())

    def _resumed(self, batch: int) -> Fold | None:
        """The fold before a round; None if that has been done."""
        query = self._query()
        if self._fold is None:
            assert self.places.count is not None
            known = self._store.positions(query)
            state = self._store.get(query, known[-1]) if known else None
            self._fold = Fold(self.job, [self.places.count], bounded=False, resume=state)
            self._done = known[-1][0] if known else -1
        if self._done == _FINISHED and batch != _FINISHED:
            raise BadInput(f"{self.job.name!r} was finished, and more rows came", hint="fold them under another name")
        if batch <= self._done:
            return None
        if batch != self._done + 1 and batch != _FINISHED:
            raise CheckpointLost(
                f"Spark goes on with batch {batch} of {self.job.name!r}, and the state after batch {batch - 1} is gone",
                hint=f"restore {self.directory / 'state'}, or fold it anew under another name",
            )
        return self._fold

    def _query(self) -> str:
        """The query's own name, which Spark keeps with its offsets: other offsets, other state."""
        metadata = self.directory / "spark" / "metadata"
        return str(msgspec.json.decode(metadata.read_bytes())["id"]) if metadata.exists() else "none"

    def _keep(self, fold: Fold, batch: int, outputs: Sequence[Output]) -> None:
        for output in outputs:
            log, offset = self._log(output.channel), output.ordinal
            for rows in output.table.to_batches():
                log.put(output.partition, offset, rows)
                offset += rows.num_rows
        query = self._query()
        self._store.put(query, (batch,), fold.snapshot())
        self._done = batch
        self._store.drop(query, self._store.positions(query)[-_KEPT:][0])

    def _log(self, channel: str) -> WritableLog:
        if channel not in self._logs:
            assert self.places.count is not None
            self._logs[channel] = self.site.output(
                fold_id(self.job.name), channel, self.places.count, "fold", resume=True
            )
        return self._logs[channel]


class FoldQuery:
    """A fold over a stream, running: `wait`, `stop`, `results`; `query` is Spark's own handle."""

    def __init__(self, rounds: Rounds, query: StreamingQuery) -> None:
        self.query = query
        self._rounds = rounds

    def wait(self, timeout_s: float | None = None) -> FoldQuery:
        """Until the query ends, which an unbounded one does not; raises what went wrong."""
        try:
            ended = self.query.awaitTermination() if timeout_s is None else self.query.awaitTermination(timeout_s)  # type: ignore[arg-type]
        except StreamingQueryException:
            self._rounds.close()
            if self._rounds.error is not None:
                raise self._rounds.error from None
            raise
        if ended is not False:
            self._rounds.close()
        return self

    def stop(self) -> FoldQuery:
        """Ends the query after the round that is under way; a later one of the same name goes on."""
        self.query.stop()
        self._rounds.close()
        return self

    def finish(self) -> FoldQuery:
        """Says that the stream has ended: windows that were open are put out. To be called once the query has ended."""
        if self.query.isActive:
            raise BadInput("the query is running", hint="stop it first, or wait for its end")
        self._rounds.open()
        try:
            self._rounds.finish()
        finally:
            self._rounds.close()
        return self

    def results(self) -> Results:
        """All rows so far."""
        job = self._rounds.job
        return Results(folded(self._rounds.site, job.name), job.channels)

    def __enter__(self) -> FoldQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(frame: DataFrame, rounds: Rounds, trigger: Mapping[str, object]) -> FoldQuery:
    """Starts the query that brings the rounds."""
    rounds.open()
    writer = frame.writeStream.foreachBatch(rounds).option("checkpointLocation", str(rounds.directory / "spark"))
    if trigger:
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]
    try:
        return FoldQuery(rounds, writer.start())
    except AnalysisException as error:
        rounds.close()
        raise BadInput(
            f"this stream cannot be folded: {error.getMessage() or error}",
            hint="rows must only be added: aggregate after folding, or give the aggregate a watermark",
        ) from error
    except BaseException:
        rounds.close()
        raise
