"""What a driver tells its nodes while they run: jobs, with their code, and when to go.

Orders travel in a stream of the site, signed with a secret that only the driver and its nodes know: it reaches them when
they are started, never through a stream. Nothing that is not signed with it is unpickled, or even decoded.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Literal, TypeAlias

import cloudpickle
import msgspec

from holons import wire
from holons.node import Submitted
from holons.program import Job
from holons.program.digest import installed
from holons.streams import Cursor, SharedLog

_SIGNATURE_BYTES = hashlib.sha256().digest_size


class Given(msgspec.Struct, frozen=True, array_like=True, tag="given"):
    """A job to take part in."""

    version: Submitted
    code: bytes

    def job(self) -> Job:
        """The job itself; only for orders that were signed."""
        job: Job = cloudpickle.loads(self.code)
        return job


class Told(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    """To one node: hand everything over and go, or just go. Its name without the incarnation."""

    node: str
    what: Literal["leave", "stop"]


Order: TypeAlias = Given | Told


class Orders:
    """The stream of orders, as a driver or one of its nodes sees it."""

    def __init__(self, stream: SharedLog, secret: bytes) -> None:
        self._stream = stream
        self._secret = secret
        self._cursor: Cursor = {}

    def give(self, order: Order) -> None:
        """Tells all nodes."""
        body = wire.encode(order)
        self._stream.append(self._signature(body) + body)

    def heard(self) -> list[Order]:
        """What is new, and signed; other drivers' orders are not for us."""
        found = []
        for message in self._stream.read(self._cursor, 1_000):
            signature, body = message.data[:_SIGNATURE_BYTES], message.data[_SIGNATURE_BYTES:]
            if hmac.compare_digest(signature, self._signature(body)):
                found.append(_decode(body))
        return found

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")


def given(version: Submitted, job: Job) -> Given:
    """A job on its way, with all modules that are not installed on the other side."""
    _take_along(type(job.program).__module__, set())
    return Given(version, cloudpickle.dumps(job))


def _take_along(module_name: str, seen: set[str]) -> None:
    """Lets a module travel by value, and those that it refers to, unless they are installed."""
    module = sys.modules.get(module_name)
    if module is None or module_name in seen or installed(module_name):
        return
    seen.add(module_name)
    if module_name != "__main__":
        cloudpickle.register_pickle_by_value(module)
    for value in list(vars(module).values()):
        _take_along(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "", seen)


_decode: Callable[[bytes], Order] = wire.decoder(Given | Told, "an order", "the stream of orders")
