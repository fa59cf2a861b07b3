"""Whatever decoders are fed with, they raise the errors that they declare: no others, no signal, no end of memory."""

from __future__ import annotations

import os
import random
import struct

import msgspec
import pytest
from tests.fuzz import decoders, files, fuzzing, stored, values  # noqa: F401 - each registers its own
from tests.fuzz.fuzzing import Decoder, Wrong, fuzz, run
from tests.fuzz.mutations import Mutator, values_of
from tests.fuzz.places import EXEMPT, places
from tests.fuzz.register import COVERED, DECODERS

from holons.errors import CodecError
from holons.wire import decoder

QUICK_CASES = 1_000
CASES = int(os.environ.get("HOLONS_FUZZ_CASES", "8_000"))


def test_no_place_that_reads_bytes_is_forgotten():
    """A new decoder goes into the table (`decoders`, `stored`, `files`), or says in `places.EXEMPT` why not."""
    assert places() - COVERED - EXEMPT.keys() == set()
    assert (COVERED | EXEMPT.keys()) - places() == set(), "these places are no more"


def test_decoders_raise_what_they_declare(tmp_path):
    run(list(DECODERS), QUICK_CASES, 0, tmp_path / "last")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", DECODERS)
def test_decoders_raise_what_they_declare_at_length(name, part, tmp_path):
    cost = DECODERS[name]().cost
    run([name], CASES // 4 * cost, random.randrange(1 << 32), tmp_path / "last")


# --- the harness itself -------------------------------------------------------------------------------------------------


class Greeting(msgspec.Struct, frozen=True, array_like=True, tag="greeting/1"):
    name: str
    times: int
    inside: bytes = b""


SAMPLE = msgspec.msgpack.encode(Greeting("zoë", 3, msgspec.msgpack.encode([{"a": 1.5}, "b"])))


def test_values_are_found_at_any_depth():
    found = [SAMPLE[value.start : value.end] for value in values_of(SAMPLE)]
    assert msgspec.msgpack.encode("zoë") in found
    assert msgspec.msgpack.encode(1.5) in found, "within bytes"


def test_mutations_reach_every_field():
    """Each field gets values of other types in messages that are whole but for that."""
    mutator, rng, wrong = Mutator([SAMPLE]), random.Random(0), set[str]()
    for _ in range(3_000):
        try:
            msgspec.msgpack.decode(mutator.draw(rng), type=Greeting)
        except UnicodeDecodeError:
            wrong.add("bad text")
        except (msgspec.DecodeError, RecursionError) as error:
            wrong.add(str(error).rpartition("`$")[2])
    assert {"bad text", "[1]`", "[2]`", "[3]`"} <= wrong


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(lambda greeting: {1: 2}[greeting.times - 2], id="other numbers"),
        pytest.param(lambda greeting: struct.pack("<q", greeting.times), id="large numbers"),
        pytest.param(lambda greeting: greeting.name.encode("latin-1"), id="other text"),
        pytest.param(lambda greeting: msgspec.msgpack.decode(greeting.inside), id="values within bytes"),
    ],
)
def test_planted_errors_are_found(planted):
    decode = decoder(Greeting, "a greeting", "the guest book")
    reader = Decoder("planted", [SAMPLE], lambda data: planted(decode(data)), (CodecError,))
    assert fuzz(reader, 20_000, 0, lambda *_: None)


def test_a_decoder_that_kills_its_process_is_named_with_its_message_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLONS_FUZZ_PLANTED", "1")
    monkeypatch.setattr(fuzzing, "_MEMORY", tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()
    with pytest.raises(Wrong, match=r"(?s)-6.*the last was aborts, case \d+ of seed 7: [0-9a-f]+"):
        run(["aborts"], 100, 7, tmp_path / "last")
    assert not list((tmp_path / "temporary").iterdir())
