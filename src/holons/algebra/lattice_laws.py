"""The laws of join semilattices, and what a broken law is told like. `laws.check` is the way in."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NoReturn, TypeVar

from holons.algebra.aggregate import Joined, Lattice
from holons.errors import LawBroken

L = TypeVar("L")

_SAMPLES_MAX: Final = 6


class Law(StrEnum):
    """What can be broken. `LawBroken.where["law"]` is one of these."""

    ASSOCIATIVE = "associative"
    COMMUTATIVE = "commutative"
    IDEMPOTENT = "idempotent"
    NEUTRAL = "zero is neutral"
    JOIN = "join is merge"
    ORDER = "order agrees with join"
    CHANGED = "changed tells the truth"
    LOSSLESS = "codec keeps everything"
    CANONICAL = "codec is canonical"
    CUTS = "folds do not depend on cuts"
    ORDER_OF_ROWS = "folds do not depend on the order of rows"
    SINGLE_ROWS = "folds agree with single rows"
    SUBTRACT = "subtract undoes merge"
    GROUPS = "groups are independent"
    VALUES = "values agree with value"
    TRAVELS = "descriptions travel"
    INPUTS_UNTOUCHED = "inputs are not changed"


_MEANING: Final = {
    Law.ASSOCIATIVE: "merge(merge(a, b), c) must be merge(a, merge(b, c)); of floats keep exact sums, as h.Sum does",
    Law.COMMUTATIVE: "merge(a, b) must be merge(b, a): the order in which states come must not show",
    Law.NEUTRAL: "merge(zero, a) and merge(a, zero) must be a",
    Law.IDEMPOTENT: "merge(a, a) must be a",
    Law.CUTS: "to fold two batches and merge must give what folding them as one gives",
    Law.ORDER_OF_ROWS: "rows in another order must give the same state: sort what is kept, or keep less",
}


def check_lattice(lattice: Lattice[L], samples: Sequence[L]) -> None:
    """All laws of a lattice, on the bottom and the first few samples. Raises `LawBroken`."""
    states = [lattice.bottom(), *samples[:_SAMPLES_MAX]]
    codec_round_trips(lattice, states)
    bottom_is_neutral(lattice, states)
    join_is_idempotent(lattice, states)
    join_is_commutative(lattice, states)
    join_is_associative(lattice, states)
    check_order(lattice, states)


def check_order(lattice: Lattice[L], states: Sequence[L]) -> None:
    """The laws by which a lattice's order, its `changed` and its bytes fit its join."""
    changed_is_right(lattice, states)
    order_agrees(lattice, states)
    bytes_are_identity(lattice, states)


def codec_round_trips(lattice: Lattice[L], states: Sequence[L]) -> None:
    """Bytes come back as a state with the same bytes and the same place in the order."""
    for state in states:
        data = lattice.encode(state)
        restored = lattice.decode(data)
        if not (lattice.leq(state, restored) and lattice.leq(restored, state)):
            _fail(lattice, Law.LOSSLESS, "decoding gives another state than was encoded", a=state, restored=restored)
        if lattice.encode(restored) != data:
            _fail(lattice, Law.CANONICAL, "a state has other bytes after decoding", a=state)


def bottom_is_neutral(lattice: Lattice[L], states: Sequence[L]) -> None:
    """Joining the bottom, from either side, changes nothing."""
    for state in states:
        for joined in (_join(lattice, state, lattice.bottom()), _join(lattice, lattice.bottom(), state)):
            _compare(lattice, Law.NEUTRAL, state, joined.state, a=state)


def join_is_idempotent(lattice: Lattice[L], states: Sequence[L]) -> None:
    """join(a, a) = a, and join(join(a, b), b) = join(a, b)."""
    for a in states:
        _compare(lattice, Law.IDEMPOTENT, a, _join(lattice, a, a).state, a=a)
        for b in states:
            both = _join(lattice, a, b).state
            _compare(lattice, Law.IDEMPOTENT, both, _join(lattice, both, b).state, a=a, b=b)


def join_is_commutative(lattice: Lattice[L], states: Sequence[L]) -> None:
    """join(a, b) = join(b, a)."""
    for a in states:
        for b in states:
            _compare(lattice, Law.COMMUTATIVE, _join(lattice, a, b).state, _join(lattice, b, a).state, a=a, b=b)


def join_is_associative(lattice: Lattice[L], states: Sequence[L]) -> None:
    """join(join(a, b), c) = join(a, join(b, c))."""
    pairs = [[lattice.join(a, b).state for b in states] for a in states]
    for i, a in enumerate(states):
        for j, b in enumerate(states):
            for k, c in enumerate(states):
                left, right = lattice.join(pairs[i][j], c).state, lattice.join(a, pairs[j][k]).state
                _compare(lattice, Law.ASSOCIATIVE, left, right, a=a, b=b, c=c)


def changed_is_right(lattice: Lattice[L], states: Sequence[L]) -> None:
    """`changed` says whether the join has other bytes than its left-hand side."""
    for a in states:
        for b in states:
            joined = _join(lattice, a, b)
            if joined.changed != (lattice.encode(joined.state) != lattice.encode(a)):
                _fail(lattice, Law.CHANGED, f"changed is {joined.changed}", a=a, b=b, joined=joined.state)


def order_agrees(lattice: Lattice[L], states: Sequence[L]) -> None:
    """leq(a, b) exactly if join(b, a) changes nothing; and a join is above both of its parts."""
    for a in states:
        for b in states:
            joined = _join(lattice, b, a).state
            below = lattice.encode(joined) == lattice.encode(b)
            if lattice.leq(a, b) != below:
                _fail(lattice, Law.ORDER, f"leq(a, b) is {not below}, but joining says {below}", a=a, b=b)
            if not (lattice.leq(a, joined) and lattice.leq(b, joined)):
                _fail(lattice, Law.ORDER, "a join is not above both of its parts", a=a, b=b, joined=joined)


def bytes_are_identity(lattice: Lattice[L], states: Sequence[L]) -> None:
    """Two states have equal bytes exactly if each is at or below the other, however they came to be."""
    reached = [*states, *(lattice.join(a, b).state for a, b in pairwise([*states, states[0]]))]
    for a in states:
        for b in reached:
            same, alike = lattice.encode(a) == lattice.encode(b), lattice.leq(a, b) and lattice.leq(b, a)
            if alike and not same:
                _fail(lattice, Law.CANONICAL, "equal states have different bytes", a=a, b=b)
            if same and not alike:
                _fail(lattice, Law.LOSSLESS, "different states have equal bytes", a=a, b=b)


# --- how it is done -------------------------------------------------------------------------------------------------


def broken(law: Law, subject: str, message: str, **witnesses: object) -> NoReturn:
    """Raise `LawBroken`, with the law and the subject as `where`, and the witnesses in the message."""
    shown = "".join(f"\n  {name} = {_REPR.repr(witness)}" for name, witness in witnesses.items())
    raise LawBroken(
        f"{message}{shown}\n ",
        law=str(law),
        subject=subject,
        hint=_MEANING.get(law, "see holons.algebra.laws for the law"),
    )


def _join(lattice: Lattice[L], a: L, b: L) -> Joined[L]:
    """The join, after making sure that the arguments are still what they were."""
    before = lattice.encode(a), lattice.encode(b)
    joined = lattice.join(a, b)
    if before != (lattice.encode(a), lattice.encode(b)):
        _fail(lattice, Law.INPUTS_UNTOUCHED, "join changed its arguments", a=a, b=b)
    return joined


def _compare(lattice: Lattice[L], law: Law, expected: L, actual: L, **witnesses: object) -> None:
    """Both have the same bytes, or the law is broken: the codec's, if each is at or below the other."""
    if lattice.encode(expected) == lattice.encode(actual):
        return
    if lattice.leq(expected, actual) and lattice.leq(actual, expected):
        law = Law.CANONICAL
    _fail(lattice, law, "two states should be equal", expected=expected, actual=actual, **witnesses)


def _fail(lattice: Lattice[L], law: Law, message: str, **witnesses: object) -> NoReturn:
    describe = getattr(lattice, "describe", None)
    broken(law, describe() if describe is not None else type(lattice).__name__, message, **witnesses)


_REPR: Final = reprlib.Repr()
_REPR.maxother = _REPR.maxstring = 400
_REPR.maxtuple = _REPR.maxlist = _REPR.maxdict = 12
