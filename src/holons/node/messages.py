"""What nodes tell each other, besides deltas. Plain data; nothing is ever unpickled."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holons.errors import CodecError


class Running(msgspec.Struct, frozen=True, array_like=True):
    """One partition that a node runs now, and how far it is."""

    job: str
    partition: int
    slot: int
    epoch: int
    offset: int
    calls: int
    """How many windows it has emitted."""
    idle: bool
    parked: bool
    """Whether it waits for a window."""
    stored_to: int
    """A watermark that its durable process records have passed."""
    emitted_to: tuple[int, ...]
    """What its durable window records have emitted, by stage."""
    held: bool = False
    """Whether it waits for slower partitions before it reads on."""


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """A sign of life, from the node's main loop itself."""

    node: str
    sequence: int
    running: tuple[Running, ...] = ()
    leaving: bool = False


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """A node takes a slot of a partition. Claims are merged by maximum of (epoch, node)."""

    job: str
    partition: int
    slot: int
    epoch: int
    node: str


class Stopped(msgspec.Struct, frozen=True, array_like=True, tag="stopped"):
    """A job has failed, or was cancelled, and stops everywhere."""

    job: str
    kind: str
    reason: str


Control: TypeAlias = Claim | Stopped

_encoder = msgspec.msgpack.Encoder()
_beats = msgspec.msgpack.Decoder(Beat)
_control = msgspec.msgpack.Decoder(Claim | Stopped)


def encode(message: Beat | Control) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def decode_beat(data: bytes) -> Beat:
    """A heartbeat from bytes."""
    try:
        return _beats.decode(data)
    except msgspec.DecodeError as error:
        raise CodecError(f"not a heartbeat: {error}", hint="the heartbeat stream is damaged, or not ours") from error


def decode_control(data: bytes) -> Control:
    """A control message from bytes."""
    try:
        return _control.decode(data)
    except msgspec.DecodeError as error:
        raise CodecError(f"not a control message: {error}", hint="the control log is damaged, or not ours") from error
