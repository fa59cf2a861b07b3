"""The orders that a driver sends to its nodes while they run: which jobs to run, with their code, and when to leave.

Orders travel in a stream of the site, one for each driver, signed with a secret that only the driver and its nodes know. The
secret reaches a node when it is started, never through a stream. An order that is not signed with it is neither unpickled
nor decoded.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import Literal, TypeAlias

import cloudpickle
import msgspec

from holons import wire
from holons.errors import LogDamaged, RecordDamaged
from holons.node import Site, Submitted
from holons.program import Job
from holons.program.digest import installed
from holons.streams import Cursor, SharedLog

_TIDY_S = 15.0
_SIGNATURE_BYTES = hashlib.sha256().digest_size


class JobOrder(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """The order to all nodes to run a job."""

    version: Submitted
    code: bytes

    def job(self) -> Job:
        """Unpickles the job; call this only for orders whose signature was checked."""
        job: Job = cloudpickle.loads(self.code)
        return job


class NodeOrder(msgspec.Struct, frozen=True, array_like=True, tag="node"):
    """The order to one node to hand everything over and leave, or to stop at once."""

    node: str
    """The name of the node without its incarnation."""
    what: Literal["leave", "stop"]


Order: TypeAlias = JobOrder | NodeOrder


class Orders:
    """The stream of orders, as a driver or one of its nodes sees it."""

    def __init__(self, stream: SharedLog, secret: bytes) -> None:
        self._stream = stream
        self._secret = secret
        self._cursor: Cursor = {}

    def send(self, order: Order) -> None:
        """Sends an order to all nodes."""
        body = wire.encode(order)
        self._stream.append(self._signature(body) + body)

    def received(self) -> list[Order]:
        """Returns the new orders that are signed with this secret; what others wrote is left out."""
        orders = []
        for message in self._stream.read(self._cursor, 1_000):
            signature, body = message.data[:_SIGNATURE_BYTES], message.data[_SIGNATURE_BYTES:]
            if hmac.compare_digest(signature, self._signature(body)):
                orders.append(_decode(body))
        return orders

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")


class OwnOrders(Orders):
    """The stream of orders of the driver of this process. It goes with the driver, however that ends."""

    def __init__(self, site: Site, token: str, secret: bytes) -> None:
        self._holding = ExitStack()
        self._holding.enter_context(site.hold(orders_stream(token)))
        super().__init__(site.shared(orders_stream(token), f"driver-{token}"), secret)
        self._tidy = site.tidier()
        self._tidied_s = float("-inf")

    def tidy_site(self, now_s: float) -> None:
        """Removes now and then what other drivers, their nodes and versions of jobs have left."""
        if now_s - self._tidied_s >= _TIDY_S:
            self._tidied_s = now_s
            with suppress(OSError, LogDamaged, RecordDamaged):  # whoever needs it says so; else it is tried again
                self._tidy()

    def close(self) -> None:
        """Sends no orders any more: all nodes have ended."""
        self._stream.close()
        self._holding.close()


def orders_stream(token: str) -> str:
    """Returns the name of the stream of a driver's orders. Each has its own: what another one ordered concerns nobody."""
    return f"orders-{token}"


def job_order(version: Submitted, job: Job) -> JobOrder:
    """Returns the order to run a job, with the code of all modules that are not installed on the other side."""
    _take_along(type(job.program).__module__, set())
    return JobOrder(version, cloudpickle.dumps(job))


def _take_along(module_name: str, seen: set[str]) -> None:
    """Pickles a module by value, and the modules to which it refers, unless they are installed."""
    module = sys.modules.get(module_name)
    if module is None or module_name in seen or installed(module_name):
        return
    seen.add(module_name)
    if module_name != "__main__":
        cloudpickle.register_pickle_by_value(module)
    for value in list(vars(module).values()):
        _take_along(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "", seen)


_decode: Callable[[bytes], Order] = wire.decoder(JobOrder | NodeOrder, "an order", "the stream of orders")
