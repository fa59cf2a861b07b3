"""A job's digest: what it does, as a short text. Other code, other settings or other inputs give another digest.

Everything durable is kept under it, so that changed code never meets old positions. Pickles would not do: the same
program may pickle to other bytes in another process. Bytecode, constants and values do, with all that a program refers
to, down to what is installed: libraries count by name. Another minor version of Python gives other digests.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, TypeAlias

from holons import codec
from holons.errors import CodecError

LATER: Final = "later"
"""In a dataclass field's metadata: it counts only if it is set, since what was made before it existed keeps its digest."""

Seen: TypeAlias = dict[int, tuple[int, object]]
"""By identity: which object it was. It is kept, so that no other can have its identity meanwhile."""


def digest_of(*values: object) -> str:
    """The digest of some values: programs, their settings, their inputs."""
    digest = hashlib.blake2b(digest_size=16)
    seen: Seen = {}
    for value in values:
        for token in _tokens(value, seen):
            digest.update(len(token).to_bytes(8, "big"))
            digest.update(token)
    return digest.hexdigest()


def _tokens(value: object, seen: Seen) -> Iterator[bytes]:
    """A value as bytes that do not depend on the process: what it is, then its parts."""
    try:
        yield codec.encode(value)
        return
    except CodecError:
        pass
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}".encode()
        return
    seen[id(value)] = len(seen), value
    if isinstance(value, set | frozenset):
        yield from sorted(b"".join(_tokens(item, seen)) for item in value)
        return
    name = getattr(value, "__qualname__", "") or getattr(value, "__name__", "")
    yield f"{type(value).__qualname__} {name}".encode()
    for part in _parts(value):
        yield from _tokens(part, seen)


def _parts(value: Any) -> list[object]:  # noqa: ANN401
    """What a value is made of; nothing if its name says it all."""
    if isinstance(value, types.CodeType):
        return [value.co_code, list(value.co_names), list(value.co_varnames), *value.co_consts]
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return []
    if isinstance(value, types.FunctionType | type):
        if installed(value.__module__):
            return []
        return _of_function(value) if isinstance(value, types.FunctionType) else _of_class(value)
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset]
    if isinstance(value, dict):
        return [part for key in sorted(value, key=repr) for part in (key, value[key])]
    if isinstance(value, list | tuple):
        return [len(value), *value]
    if type(value) not in copyreg.dispatch_table and not _travels_its_own_way(type(value)):
        return [type(value), _fields(value)]
    registered: Callable[[Any], Any] | None = copyreg.dispatch_table.get(type(value))
    made = value.__reduce_ex__(4) if registered is None else registered(value)
    return [made] if isinstance(made, str) else [list(part) if isinstance(part, Iterator) else part for part in made]


def _travels_its_own_way(cls: type) -> bool:
    """Whether a class says itself how it is pickled, as those do that are written in C."""
    plain = ("__reduce__", "__reduce_ex__", "__getstate__")
    return any(getattr(cls, name, None) is not getattr(object, name, None) for name in plain)


def _fields(value: Any) -> dict[str, object]:  # noqa: ANN401
    """An object's own attributes, less what it has only worked out of the others."""
    if dataclasses.is_dataclass(value):
        fields = {one: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {one.name: had for one, had in fields.items() if LATER not in one.metadata or had != one.default}
    slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)}
    worked_out = {
        name for cls in type(value).__mro__ for name, one in vars(cls).items() if isinstance(one, cached_property)
    }
    return {name: one for name, one in (getattr(value, "__dict__", {}) | slots).items() if name not in worked_out}


def _of_class(cls: type) -> list[object]:
    members = [(name, vars(cls)[name]) for name in sorted(vars(cls)) if not _noise(name, vars(cls)[name])]
    return [*cls.__bases__, *(part for named in members for part in named)]


def _of_function(function: types.FunctionType) -> list[object]:
    referred = [
        (name, function.__globals__[name]) for name in sorted(_names(function.__code__)) if name in function.__globals__
    ]
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    return [function.__code__, function.__defaults__, function.__kwdefaults__, closed, referred]


def _names(code: types.CodeType) -> set[str]:
    """The global names that a function refers to, its inner functions' included; attributes may have the same names."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    loaded = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return loaded.union(*inner)


def installed(module_name: str | None) -> bool:
    """Whether code comes from the standard library or an installed package, ours included."""
    root = (module_name or "").partition(".")[0]
    if root in sys.stdlib_module_names or root == "holons":
        return root != "__main__"
    path = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path


def _noise(name: str, member: object) -> bool:
    """Names that Python itself gives to a class, some of them only once it was looked at or pickled."""
    return name.startswith("__") and name.endswith("__") and not isinstance(member, types.FunctionType)
