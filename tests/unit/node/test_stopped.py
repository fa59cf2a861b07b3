"""What stopped a job is told once, with the user's line, and with what to do."""

import pytest

from holons.errors import HolonsError, ProgramFailed
from holons.node.messages import Stopped


def raises():
    raise KeyError("lost")


def failed(message: str, hint: str = "") -> HolonsError:
    error = ProgramFailed(message, hint=hint, partition=3)
    with pytest.raises(KeyError) as cause:
        raises()
    error.__cause__ = cause.value
    return error


def test_a_cause_is_told_with_its_line():
    reason = Stopped.by("job", failed("it broke")).reason
    assert reason.startswith("it broke (partition 3): KeyError: 'lost' (")
    assert 'raise KeyError("lost")' in reason


def test_a_cause_that_the_message_has_is_not_told_again():
    reason = Stopped.by("job", failed("map: raised KeyError: 'lost'", hint="try it")).reason
    assert reason.count("'lost'") == 1
    assert reason.endswith(")\n  hint: try it")


def test_an_error_without_a_cause_is_told_as_it_is():
    error = ProgramFailed("it broke", hint="try it", partition=3)
    assert Stopped.by("job", error) == Stopped("job", "ProgramFailed", str(error))
