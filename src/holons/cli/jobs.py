"""Jobs and their inputs, as a command line names them: `APP.py:NAME`, `module:NAME`, `nexmark:q7`; `bids=FILE.parquet`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import cloudpickle
import polars as pl
import pyarrow as pa

from holons.arrow import whole
from holons.errors import BadInput, DescribedError
from holons.names import check_name
from holons.nexmark import query
from holons.program import Job, Program
from holons.program.dataflow import Completed, Grouped, Stream, Windowed
from holons.streams import format_of, read_files
from holons.windows import END, Mark

_FORM = "APP.py:NAME, package.module:NAME, or nexmark:q7"
_NEXMARK = "nexmark"
_ENDINGS = "the names of inputs end in .parquet, .csv or .jsonl"


def load_job(text: str) -> Job:
    """The job that `text` names: an `h.Job`, or what a function without arguments returns."""
    where, _, name = text.rpartition(":")
    if not where and name.endswith(".py"):
        where, name = name, ""
    if not where:
        raise BadInput(f"{text!r} does not name a job", hint=f"write {_FORM}")
    if where == _NEXMARK:
        return query(name)
    module = _from_file(Path(where)) if where.endswith(".py") or "/" in where else _from_name(where)
    value = getattr(module, name, None) if name else None
    if value is None:
        what = f"{where} has no {name!r}" if name else f"{where} may have several jobs, and none is named"
        raise BadInput(what, hint=_jobs_in(module, where))
    return _job(value, text)


def _job(value: object, text: str) -> Job:
    if isinstance(value, Job):
        return value
    if inspect.isfunction(value):
        if _required(value):
            raise BadInput(f"{text} is a function with arguments", hint="a function that makes a job takes none")
        with _user_code(text, inspect.getfile(value)):
            made = value()
        if isinstance(made, Job):
            return made
        hint = _unfinished(made) or "return h.job(MyProgram(), ...)"
        raise BadInput(f"{text} returned a {type(made).__name__}, not a job", hint=hint)
    if isinstance(value, Program) or (inspect.isclass(value) and issubclass(value, Program)):
        raise BadInput(
            f"{text} is a program, not a job", hint='bind it to its streams: job = h.job(MyProgram(), "stream")'
        )
    hint = _unfinished(value) or 'job = h.job(MyProgram(), "stream")'
    raise BadInput(f"{text} is no job, but of type {type(value).__name__}", hint=hint)


def _unfinished(value: object) -> str:
    """What a pipeline still needs to be a job; nothing if it is none."""
    if isinstance(value, Stream | Completed):
        return 'say where its rows go: .to("channel")'
    if isinstance(value, Windowed | Grouped):
        return 'say what is worked out, and where its rows go: .agg(n=h.count()).to("channel")'
    return ""


def _jobs_in(module: ModuleType, where: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Job) or _makes_a_job(value)]
    if not names:
        return f'there is no job in it: write job = h.job(MyProgram(), "stream"), then {where}:job'
    return f"there is {', '.join(f'{where}:{name}' for name in names)}"


def _makes_a_job(value: object) -> bool:
    return inspect.isfunction(value) and not _required(value) and "Job" in str(value.__annotations__.get("return"))


def _required(function: object) -> bool:
    assert callable(function)
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return any(one.default is inspect.Parameter.empty and one.kind not in optional for one in parameters)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        beside = sorted(other.name for other in path.parent.glob("*.py")) if path.parent.is_dir() else []
        hint = f"in {path.parent} there is {', '.join(beside[:8])}" if beside else f"write {_FORM}"
        raise BadInput(f"there is no file {path}", hint=hint)
    path = path.resolve()
    _importable(path.parent)
    spec = importlib.util.spec_from_file_location(f"holons_app_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    cloudpickle.register_pickle_by_value(module)  # other processes could not import it by that name
    with _user_code(path.name, str(path)):
        spec.loader.exec_module(module)
    return module


def _from_name(name: str) -> ModuleType:
    _importable(Path.cwd())
    try:
        with _user_code(name):
            return importlib.import_module(name)
    except BadInput as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
            hint = f"write {_FORM}; modules are looked for in this directory too"
            raise BadInput(f"there is no module {name!r}", hint=hint) from None
        raise


def _importable(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


@contextmanager
def _user_code(what: str, file: str = "") -> Iterator[None]:
    """Errors of the user's own lines say which line it was: the last one reached in `file`, not a line of ours."""
    try:
        yield
    except SyntaxError as error:
        where = Path(error.filename or file or what).name + (f", line {error.lineno}" if error.lineno else "")
        line = f": {error.text.strip()}" if error.text else ""
        raise BadInput(
            f"{where}: {error.msg}{line}", hint="Python cannot read this file: correct the line, and save it as UTF-8"
        ) from None
    except DescribedError as error:
        error.where.setdefault("in", f"{what}, line {_place(error, file).lineno}")
        raise
    except SystemExit as error:
        raise BadInput(
            f"{what} ended itself at line {_place(error, file).lineno}",
            hint='put what a script does under `if __name__ == "__main__":`',
        ) from None
    except Exception as error:
        place = _place(error, file)
        raise BadInput(
            f"{what} raised at line {place.lineno}, in {place.name}: {place.line}",
            hint="it is run from top to bottom to find its jobs",
        ) from error


def _place(error: BaseException, file: str) -> traceback.FrameSummary:
    frames = traceback.extract_tb(error.__traceback__)
    return ([frame for frame in frames if frame.filename == file] or frames)[-1]


# --- inputs -----------------------------------------------------------------------------------------------------------


def named_files(arguments: Sequence[str]) -> dict[str, list[Path]]:
    """`bids=FILE` and `bids=DIRECTORY`, as often as wanted: for each stream its files, one for each partition."""
    files: dict[str, list[Path]] = {}
    for text in arguments:
        stream, path = _named_path(text)
        paths = _files_in(path) if path.is_dir() else [path]
        for file in paths:
            if format_of(file) is None:
                raise BadInput("cannot tell what this file holds", hint=_ENDINGS, file=file)
        files.setdefault(stream, []).extend(paths)
    return files


def _named_path(text: str) -> tuple[str, Path]:
    """Splits `bids=FILE` where a file is behind the `=`: names of streams and of files may have one, too."""
    splits = [at for at, character in enumerate(text) if character == "=" and 0 < at < len(text) - 1]
    readings = [(text[:at], Path(text[at + 1 :])) for at in splits]
    if not readings:
        raise BadInput(f"--input {text!r} cannot be read", hint="write --input bids=FILE.parquet")
    for stream, path in readings:
        if path.exists():
            return check_name("stream", stream), path
    stream, path = readings[0]
    raise BadInput(f"there is no {path}", hint=f"--input {stream}=FILE or --input {stream}=DIRECTORY")


def _files_in(directory: Path) -> list[Path]:
    paths = sorted(one for one in directory.iterdir() if one.is_file() and not one.name.startswith((".", "_")))
    if not paths:
        raise BadInput(f"there are no files in {directory}", hint="one file for each partition")
    return paths


def read_inputs(
    job: Job, files: Mapping[str, Sequence[Path]], rows_max: int
) -> dict[str, list[list[pl.DataFrame | Mark]]]:
    """The first rows of each file, as the partitions of a job's streams."""
    for source in job.inputs:
        if not files.get(source.stream):
            raise BadInput(
                f"the job reads {source.stream!r}, and nobody knows its columns",
                hint=f"pass rows for it: --input {source.stream}=FILE.parquet (again for each partition, or a directory)",
            )
    unknown = sorted(files.keys() - {source.stream for source in job.inputs})
    if unknown:
        names = ", ".join(source.stream for source in job.inputs)
        raise BadInput(f"the job does not read {unknown[0]!r}", hint=f"it reads {names}")
    streams: dict[str, list[list[pl.DataFrame | Mark]]] = {}
    for source in job.inputs:
        log = read_files(files[source.stream], len(files[source.stream]))
        streams[source.stream] = [
            [*(_frame(chunk.rows) for chunk in log.read(number, 0, rows_max) if chunk.rows is not None), END]
            for number in range(log.partitions)
        ]
    return streams


def _frame(rows: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(whole(rows))
    assert isinstance(frame, pl.DataFrame)
    return frame
