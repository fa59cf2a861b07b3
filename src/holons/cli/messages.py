"""What nodes tell each other, in plain words."""

from __future__ import annotations

from holons.engines.node_logs import decode_log_record
from holons.errors import CodecError
from holons.node.messages import Claim, Heartbeat, Running, decode_claim, decode_heartbeat
from holons.wcrdt import Delta
from holons.windows import instant_text


def in_words(stream: str, data: bytes) -> str:
    """A message of a shared stream; the stream's name says what it is, and of others there is only the size to tell.

    >>> in_words("notes", b"hello")
    "5 bytes: b'hello'"
    """
    try:
        if stream == "heartbeats":
            return _heartbeat(decode_heartbeat(data))
        if stream == "control":
            return _claim(decode_claim(data))
        if stream == "logs":
            said = decode_log_record(data)
            return f"{instant_text(round(said.created * 1_000) * 1_000)} {said.level_name} {said.logger}: {said.text}"
        if stream.startswith("sync"):
            return _delta(Delta.decode(data))
    except CodecError as error:
        return f"{len(data)} bytes that are {error.message}"
    return f"{len(data)} bytes: {data[:40]!r}"


def _claim(claim: Claim) -> str:
    return f"{claim.node} takes partition {claim.partition} of {claim.job} (slot {claim.slot}, epoch {claim.epoch})"


def _heartbeat(heartbeat: Heartbeat) -> str:
    running = "; ".join(_running(one) for one in heartbeat.running) or "runs nothing"
    return f"heartbeat {heartbeat.sequence}{', leaving' if heartbeat.leaving else ''}: {running}"


def _running(one: Running) -> str:
    state = " (parked)" if one.parked else " (idle)" if one.idle else " (held)" if one.held else ""
    return f"{one.job}/{one.partition} at {one.offset}{state}"


def _delta(delta: Delta) -> str:
    size = sum(len(seal.payload) for seal in delta.seals)
    what = f"{len(delta.seals)} panes, {size} bytes" if delta.seals else "nothing in it"
    stage = f" of stage {delta.stage}" if delta.stage else ""
    start, end = instant_text(delta.start), instant_text(delta.end)
    return f"partition {delta.partition}{stage} sealed ({start}, {end}]: {what}"
