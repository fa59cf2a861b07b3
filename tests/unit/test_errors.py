from __future__ import annotations

import contextlib
import pickle

import pytest

from holons import errors
from holons.errors import BadWindow, CodecError, DescribedError, HolonsError, PromiseBroken

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DescribedError)),
    key=lambda kind: kind.__name__,
)
ROOTS = {DescribedError, HolonsError, PromiseBroken}
PROMISES = {kind for kind in KINDS if issubclass(kind, PromiseBroken)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_survives_pickling(kind: type[DescribedError]):
    error = kind("it broke", hint="mend it", job="q7", partition=3)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert (again.message, again.hint, again.where) == ("it broke", "mend it", {"job": "q7", "partition": 3})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ROOTS])
def test_every_error_is_documented_and_below_a_root(kind: type[DescribedError]):
    assert kind.__doc__
    assert (HolonsError in kind.__bases__) != (PromiseBroken in kind.__bases__)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ROOTS and kind not in PROMISES])
def test_every_error_has_a_builtin_parent(kind: type[DescribedError]):
    (builtin,) = [base for base in kind.__bases__ if base.__module__ == "builtins"]
    assert issubclass(builtin, Exception)
    with pytest.raises(builtin):
        raise kind("it broke")


@pytest.mark.parametrize("kind", sorted(PROMISES, key=lambda kind: kind.__name__))
def test_a_broken_promise_is_not_caught_by_accident(kind: type[DescribedError]):
    assert not issubclass(kind, Exception)
    with pytest.raises(kind), contextlib.suppress(Exception, HolonsError):
        raise kind("the promise is void")


def test_the_root_is_an_exception():
    assert issubclass(HolonsError, Exception)
    with contextlib.suppress(Exception):
        raise HolonsError("it broke")


def test_the_message_says_what_where_and_what_next():
    error = BadWindow("a window must be longer than nothing", hint='use "1s"', job="q7", window=None, partition=0)
    assert str(error) == 'a window must be longer than nothing (job q7, partition 0)\n  hint: use "1s"'


def test_without_place_and_hint_the_message_stands_alone():
    assert str(CodecError("what is this")) == "what is this"


def test_each_error_is_caught_by_one_root():
    for kind in KINDS:
        with pytest.raises(PromiseBroken if kind in PROMISES else kind if kind is DescribedError else HolonsError):
            raise kind("it broke")
