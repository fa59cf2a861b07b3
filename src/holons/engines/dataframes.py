"""`h.fold`: a program over a DataFrame, over a stream of DataFrames, or over files, which the tasks read themselves."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from holons.disk import Durability
from holons.engines.choosing import check_spark
from holons.engines.collecting import outputs_in_memory
from holons.engines.directory_site import DirectorySite
from holons.engines.inputs import check_job, check_names
from holons.engines.results import Results
from holons.errors import BadInput
from holons.program import Job
from holons.program.folding import Fold, Partial, check_foldable

if TYPE_CHECKING:
    from holons.engines.spark.folding import Places
    from holons.engines.spark.frames import SparkFrame, SparkSession

Paths: TypeAlias = str | Path | Sequence[str | Path]
Source: TypeAlias = Union["SparkFrame", Paths]


class FoldRun(Protocol):
    """What `h.fold` returns: a fold that is done, or, over a stream, a query that runs (`query` is Spark's own handle)."""

    def wait(self, timeout_s: float | None = None) -> FoldRun:
        """Waits for the end, which an unbounded query does not have; raises what went wrong."""
        ...

    def stop(self) -> FoldRun:
        """Ends a query after the round that is under way; a later one of the same name goes on."""
        ...

    def finish(self) -> FoldRun:
        """Says that the stream has ended, so that open windows are emitted. To be called once the query has ended."""
        ...

    def results(self) -> Results:
        """Returns all rows so far."""
        ...

    def __enter__(self) -> FoldRun: ...

    def __exit__(self, *_: object) -> None: ...


class Folded:
    """What came of a bounded fold. It is done; the methods are those of a running one."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def wait(self, timeout_s: float | None = None) -> Folded:
        return self

    def stop(self) -> Folded:
        return self

    def finish(self) -> Folded:
        return self

    def results(self) -> Results:
        """Returns all rows."""
        return self._results

    def __enter__(self) -> Folded:
        return self

    def __exit__(self, *_: object) -> None:
        return


def fold(
    job: Job,
    rows: Source | Mapping[str, Source],
    *,
    partition: str | None = None,
    order: str | None = None,
    partitions: int | Mapping[str, int] | None = None,
    columns: Sequence[str] | None = None,
    log: Path | str | None = None,
    trigger: Mapping[str, object] | None = None,
    spark_session: SparkSession | None = None,
    durability: Durability = "process",
) -> FoldRun:
    """Runs a program over a DataFrame, and gives what nodes would: `h.fold(job, df).results()`.

    Each row belongs to a `partition` of the stream, and has its place in it, its `order`: integer columns, by default
    `_partition` and `_offset`, which `format("holons")` gives with the option `positions`. Over a batch no row is late.

    `rows` may be paths of Parquet or Arrow files, which the tasks read themselves, only the `columns` that are named. There,
    by default, each file is a partition, in order.

    A streaming DataFrame is folded round by round. It needs `partitions`, how many there are, and `log`, the directory of a
    site, where its state is kept and what it puts out (with `durability="disk"` also when the machine dies). It returns at
    once; `trigger` is Spark's, as in `trigger={"availableNow": True}`. Started again under the same name, it goes on where
    it was.

    A job with several inputs takes a source for each: `{"bids": df, "auctions": "auctions/"}`, and `partitions` for each.
    """
    check_job(job)
    check_foldable(job)
    check_spark()
    sources = _sources(job, rows)
    counts = _counts(job, partitions)
    frames = [source for source in sources if not isinstance(source, list)]
    if any(frame.isStreaming for frame in frames):
        if len(sources) > 1:
            raise BadInput("several streams are not folded together", hint="run it on nodes: h.run(job, ...)")
        from holons.engines.spark.folding import Places, check_frame
        from holons.engines.spark.reading import OFFSET, PARTITION
        from holons.engines.spark.rounds import Rounds, start

        if counts[0] is None or log is None:
            raise BadInput("a stream needs partitions= and log=", hint='fold(job, df, partitions=3, log="site")')
        places = Places(partition or PARTITION, order or OFFSET, 0, counts[0])
        check_frame(frames[0], job.inputs[0].time, places)
        return start(
            frames[0], Rounds(job, DirectorySite(Path(log).absolute(), None, durability), places), trigger or {}
        )
    if log is not None or trigger is not None or durability != "process":
        raise BadInput(
            "log=, trigger= and durability= are for streams",
            hint="a batch is folded at once; write its results anywhere",
        )
    return _fold_bounded(job, sources, counts, (partition, order), columns, spark_session)


def _fold_bounded(
    job: Job,
    sources: Sequence[SparkFrame | list[Path]],
    counts: list[int | None],
    named: tuple[str | None, str | None],
    columns: Sequence[str] | None,
    spark_session: SparkSession | None,
) -> Folded:
    from holons.engines.spark.folding import collected

    parts: list[Partial] = []
    known: list[int] = []
    for index, source in enumerate(sources):
        places = _places(source, named, sum(known), counts[index])
        mine = collected(_bounded_partials(job, index, source, places, columns, spark_session))
        parts += mine
        count = places.count
        known.append(1 + max((part.partition for part in mine), default=0) if count is None else count)
    whole = Fold(job, known, bounded=True)
    outputs = [*whole.take(parts), *whole.finish()]
    return Folded(Results(outputs_in_memory(outputs), job.channels))


def fold_plan(
    job: Job,
    frame: SparkFrame,
    *,
    partition: str | None = None,
    order: str | None = None,
    partitions: int | None = None,
) -> SparkFrame:
    """What Spark is asked to do for a batch, without doing it: `h.fold_plan(job, df).explain()`."""
    check_foldable(job)
    places = _places(frame, (partition, order), 0, partitions)
    return _bounded_partials(job, 0, frame, places, None, None)


def _bounded_partials(
    job: Job,
    index: int,
    source: SparkFrame | list[Path],
    places: Places,
    columns: Sequence[str] | None,
    spark_session: SparkSession | None,
) -> SparkFrame:
    from holons.engines.spark.folding import check_frame, file_partials, frame_task, partials
    from holons.engines.spark.session import session
    from holons.program.folding import Starts

    if isinstance(source, list):
        return file_partials(spark_session or session(), job, index, places, source, columns)
    check_frame(source, job.inputs[index].time, places)
    return partials(source, frame_task(job, index, places, Starts({}), bounded=True))


def _places(
    source: SparkFrame | list[Path], named: tuple[str | None, str | None], base: int, count: int | None
) -> Places:
    from holons.engines.spark.folding import Places
    from holons.engines.spark.reading import OFFSET, PARTITION

    partition, order = named
    if not isinstance(source, list):
        return Places(partition or PARTITION, order or OFFSET, base, count)
    if partition is None and order is not None:
        raise BadInput("an order, and no partition", hint="name both columns; or neither, and each file is a partition")
    return Places(partition, order, base, len(source) if partition is None else count)


def _sources(job: Job, rows: Source | Mapping[str, Source]) -> list[SparkFrame | list[Path]]:
    """A source for each input of the job."""
    if not isinstance(rows, Mapping):
        rows = {job.inputs[0].stream: rows}
    check_names(job, rows, "df, ...")
    return [_source(rows[given.stream]) for given in job.inputs]


def _source(given: Source) -> SparkFrame | list[Path]:
    if hasattr(given, "mapInArrow"):
        if "connect" in type(given).__module__:
            raise BadInput(
                "a DataFrame of Spark Connect cannot be folded yet", hint="use a classic session, without .remote(...)"
            )
        return given  # type: ignore[return-value]
    if isinstance(given, str | Path):
        given = [given]
    if not isinstance(given, Sequence) or not all(isinstance(path, str | Path) for path in given):
        raise BadInput(f"a {type(given).__name__} is neither a DataFrame nor paths", hint="spark.createDataFrame(...)?")
    found: list[Path] = []
    for path in given:
        at = Path(path)
        if at.is_dir():
            found += sorted(one for one in at.rglob("*") if one.suffix in (".parquet", ".arrow"))
        else:
            found += [Path(one) for one in sorted(glob.glob(str(path)))]  # noqa: PTH207 - absolute patterns as well
    if not found:
        raise BadInput(
            f"there are no files at {', '.join(map(str, given))}", hint="Parquet (.parquet) or Arrow (.arrow)"
        )
    return found


def _counts(job: Job, partitions: int | Mapping[str, int] | None) -> list[int | None]:
    """How many partitions each input has, as far as it was told."""
    if partitions is None or isinstance(partitions, int):
        if len(job.inputs) > 1:
            raise BadInput(
                "how many partitions has each input?", hint=f"partitions={{{job.inputs[0].stream!r}: 3, ...}}"
            )
        partitions = {} if partitions is None else {job.inputs[0].stream: partitions}
    counts = [partitions.get(given.stream) for given in job.inputs]
    if len(counts) > 1 and None in counts[:-1]:
        raise BadInput(f"how many partitions has {job.inputs[counts.index(None)].stream!r}?", hint="partitions={...}")
    if any(count is not None and count < 1 for count in counts):
        raise BadInput("a stream has at least one partition", hint="partitions=1 or more")
    return counts
