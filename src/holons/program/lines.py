"""Where in the user's code something was written: errors name that line, those of a pipeline long after it was run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from holons.errors import BadInput, BadProgram, DescribedError, ProgramFailed

_OURS = __name__.rpartition(".")[0] + "."


def line_of_user() -> str:
    """Returns the innermost line outside of this package, as `file.py:12`."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def stacklevel_of_user() -> int:
    """Returns what `warnings.warn` takes as `stacklevel` where this is called, to name the line of the user's code."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").startswith("holons.") and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level


@contextmanager
def written_at(line: str, what: object, *, building: bool = False) -> Iterator[None]:
    """Errors of polars and of user functions say what failed, and where it was written."""
    try:
        yield
    except DescribedError as error:
        if not str(error).startswith(line):
            error.where.setdefault("line", line)
        raise
    except pl.exceptions.ColumnNotFoundError as error:
        kind = BadProgram if building else BadInput
        raise kind(f"{line}: {what}: {_first_line(error)}", hint="check the name; `.schema` lists them") from error
    except pl.exceptions.DuplicateError as error:
        raise BadProgram(f"{line}: {what}: {_first_line(error)}", hint="give one of them another name") from error
    except pl.exceptions.PolarsError as error:
        kind = BadProgram if building else BadInput
        raise kind(f"{line}: {what}: {_first_line(error)}", hint="check the types of the columns") from error
    except Exception as error:
        if not building:
            raise ProgramFailed(
                f"{line}: {what}: raised {type(error).__name__}: {error}",
                hint="try the function on a few rows; it sees batches of any size",
            ) from error
        raise BadProgram(
            f"{line}: {what}: its function raised {type(error).__name__}: {error}",
            hint="it was tried on a frame without rows; give a function that also takes none",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
