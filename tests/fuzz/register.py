"""The table of all decoders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from tests.fuzz.fuzzing import Decoder

DECODERS: dict[str, Callable[[], Decoder]] = {}
"""By name. They are made when needed: some run a job first."""
COVERED: set[str] = set()
"""The places in the code that they run, as `places.py` names them."""


def decoder(*places: str) -> Callable[[Callable[[], Decoder]], Callable[[], Decoder]]:
    """Registers a decoder under the name of the function that makes it, with the places that it covers."""

    def register(make: Callable[[], Decoder]) -> Callable[[], Decoder]:
        DECODERS[make.__name__.replace("_", " ")] = make
        COVERED.update(places)
        return make

    return register


def _aborts() -> Decoder:
    """A decoder that leaves a folder and kills its process: to see that this is noticed."""
    tempfile.mkdtemp()
    return Decoder("aborts", [b"whole"], lambda data: None if data == b"whole" else os.abort(), (), structured=False)


if "HOLONS_FUZZ_PLANTED" in os.environ:
    DECODERS["aborts"] = _aborts
