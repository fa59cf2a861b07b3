"""An error in a user's program is told with the user's lines, and with ours only where they matter."""

import traceback

import polars as pl
import pytest

import holons as h
from holons.errors import InvariantBroken


class Raises(h.Program):
    def process(self, events):
        return events["price"] / {}["lost"]


def raised() -> h.HolonsError | h.PromiseBroken:
    with pytest.raises((h.HolonsError, h.PromiseBroken)) as error:
        h.run(
            h.job(Raises(), "bids"), {"bids": [pl.DataFrame({"ts": [1], "price": [2]})]}, engine="embedded", nodes=1
        ).wait()
    return error.value


def functions(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_only_the_users_lines_are_shown():
    error = raised()
    assert functions(error) == ["raised", "wait"]
    assert isinstance(error.__cause__, KeyError)
    assert functions(error.__cause__) == ["process"]


def test_all_lines_are_shown_to_those_who_look_for_a_bug_of_ours(monkeypatch):
    monkeypatch.setenv("HOLONS_DEBUG", "1")
    assert {"tick", "process"} < set(functions(raised()) + functions(raised().__cause__))


def test_a_broken_promise_keeps_our_lines(monkeypatch):
    def broken(self, events):
        raise InvariantBroken("no")

    monkeypatch.setattr(Raises, "process", broken)
    assert "tick" in functions(raised())
