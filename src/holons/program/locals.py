"""How values of locals go through a checkpoint: they come back as they were.

Canonical bytes sort maps and unwrap named tuples, but a program sees the order of its dict and the types of its values, and
must do the same after a restart. So values are taken apart into parts that keep both, or are refused.
"""

from __future__ import annotations

import copy
import datetime
from typing import Any

import numpy as np

from holons import codec
from holons.errors import BadElement, CodecError
from holons.program.job import Job

_PLAIN = (type(None), bool, int, float, str, bytes)


def initial_locals(job: Job, scope: str) -> dict[str, Any]:
    """Returns the first values of all locals of a scope, after checking that they survive a checkpoint."""
    values = {name: local.initial for name, local in job.layout.locals.items() if local.scope == scope}
    return copy.deepcopy(checked_locals(values))


def checked_locals(values: dict[str, Any]) -> dict[str, Any]:
    """Returns values of locals; raises `BadElement` if one does not survive a checkpoint."""
    for name, value in values.items():
        try:
            codec.encode(freeze(value))
        except CodecError as error:
            raise BadElement(
                f"the value of Local {name} cannot be checkpointed: {error.message}", hint=error.hint
            ) from None
    return values


def freeze(value: object) -> object:
    """Takes a value apart into parts that the codec returns as they were."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, list | tuple) and kind in (list, tuple):
        return kind.__name__, [freeze(item) for item in value]
    if isinstance(value, dict) and kind is dict:
        return "dict", [[freeze(key), freeze(item)] for key, item in value.items()]
    if kind in (set, frozenset, np.ndarray):
        return "as it is", value
    if isinstance(value, np.generic):
        return "scalar", np.array([value])
    if isinstance(value, datetime.datetime):
        return "datetime", value.isoformat()
    raise CodecError(
        f"a {kind.__name__} would not come back as it was",
        hint="use None, bool, int, float, str, bytes, datetime, list, tuple, set, dict or a NumPy array",
    )


def thaw(frozen: Any) -> Any:  # noqa: ANN401 - the value is whatever was frozen
    """Returns the value that `freeze` has taken apart."""
    try:
        return _thawed(frozen)
    except (TypeError, ValueError, LookupError, RecursionError) as error:
        raise CodecError(
            f"this is no value of a Local: {error}", hint="the record is damaged, or was written by something else"
        ) from error


def _thawed(frozen: Any) -> Any:  # noqa: ANN401 - the value is whatever was frozen
    if type(frozen) in _PLAIN:
        return frozen
    kind, parts = frozen
    if kind == "dict":
        return {_thawed(key): _thawed(item) for key, item in parts}
    if kind in ("list", "tuple"):
        return [_thawed(item) for item in parts] if kind == "list" else tuple(_thawed(item) for item in parts)
    if kind == "scalar":
        return parts[0]
    if kind == "datetime":
        return datetime.datetime.fromisoformat(parts)
    return parts.copy() if isinstance(parts, np.ndarray) else parts
