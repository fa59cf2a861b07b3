"""Every error that Holons raises, in two trees: `HolonsError`, and `PromiseBroken` for what must never happen.

An error says what happened, where, and what to do next (`hint`). Each `HolonsError` is an `Exception`, and also the
builtin error that a Python programmer would expect, so `except ValueError` works as usual. A `PromiseBroken` means that
a promise of the system is void. It is no `Exception`, so no `except Exception` in a user's program swallows it.
"""

from __future__ import annotations


class DescribedError(BaseException):
    """What both trees have in common: a message, a place, and a hint. Catch this to catch all that Holons raises."""

    def __init__(self, message: str, *, hint: str = "", **where: object) -> None:
        self.message = message
        self.hint = hint
        self.where = {name: value for name, value in where.items() if value is not None}
        super().__init__(message)

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value}" for name, value in self.where.items())
        text = f"{self.message} ({place})" if place else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.where)


def _rebuild(kind: type[DescribedError], message: str, hint: str, where: dict[str, object]) -> DescribedError:
    return kind(message, hint=hint, **where)


class HolonsError(DescribedError, Exception):
    """The root of all errors that a program may catch and go on from."""


class PromiseBroken(DescribedError):
    """The root of the errors that mean that a promise of the system is void. Not caught by `except Exception`."""


# --- what a user hands us -------------------------------------------------------------------------------------------


class BadElement(HolonsError, TypeError):
    """An element that this aggregate cannot take."""


class BadDuration(HolonsError, ValueError):
    """A duration that is not positive, or cannot be read."""


class BadWindow(HolonsError, ValueError):
    """A window specification that makes no sense."""


class BadProgram(HolonsError, TypeError):
    """A program that cannot be laid out: handles, stages or methods that do not fit together."""


class NotFoldable(HolonsError, TypeError):
    """A program, or rows, that cannot be folded apart: what some rows do would depend on others."""


class BadInput(HolonsError, ValueError):
    """An input batch whose columns are not what the job was told."""


class BadName(HolonsError, ValueError):
    """A text that cannot be the name of a stream, a job, a channel or a handle."""


class JobRunning(HolonsError, RuntimeError):
    """A job of that name is running, and it is another one."""


class UnpicklableProgram(HolonsError, TypeError):
    """A program that cannot travel to another process."""


class JavaMissing(HolonsError, RuntimeError):
    """Spark needs Java, and there is none, or an old one."""


class MissingExtra(HolonsError, ImportError):
    """Something that only some uses need is not installed."""


class CodecError(HolonsError, ValueError):
    """A value without canonical bytes, or bytes that are not ours."""


# --- what a program does while it runs ------------------------------------------------------------------------------


class WrongScope(HolonsError, RuntimeError):
    """A handle used where its state is not defined (invariant: scoped state)."""


class InsertBelowWatermark(HolonsError, ValueError):
    """An insert into time that this partition has already sealed."""


class UnknownWindow(HolonsError, LookupError):
    """A window that the handle's specification never produces."""


class WindowNotCompleted(HolonsError, LookupError):
    """A safe read of a window that some partition has not sealed (invariant: complete-before-read)."""


class WindowTrimmed(HolonsError, LookupError):
    """A read of a window older than the handle keeps (invariant: trim only what nobody needs)."""


class AwaitWouldDeadlock(HolonsError, RuntimeError):
    """An await of a window that this very partition has not sealed: it would wait for itself."""


class IntegerOverflow(HolonsError, OverflowError):
    """A sum that no longer fits into 64 bits. Nothing ever wraps around silently."""


class ProgramFailed(HolonsError, RuntimeError):
    """The user's code raised. Says where; the cause is chained."""


class StillRunning(HolonsError, TimeoutError):
    """A run has not ended within the time that was given."""


class NodesSilent(HolonsError, RuntimeError):
    """No node of a driver says anything."""


class NodesFailed(HolonsError, RuntimeError):
    """Node after node of a driver ended with the same error, and those that replaced them did as well."""


class ProducerFailed(HolonsError, RuntimeError):
    """A stream's producer did not come up, or died, or its feed raised."""


class ProducerFenced(HolonsError, RuntimeError):
    """Another producer has taken over a partition: what this one appends to it is refused."""


class WriterForgotten(HolonsError, RuntimeError):
    """A writer of a shared stream has been silent for so long that nothing there knows its name any more."""


class JobFailed(HolonsError, RuntimeError):
    """A job was stopped on all nodes; says why."""


# --- what may happen to what is kept ---------------------------------------------------------------------------------


class StoreUnavailable(HolonsError, OSError):
    """The checkpoint store does not answer; what was to be stored is tried again."""


class LogUnavailable(HolonsError, OSError):
    """A log does not answer; what was to be read or written is tried again."""


class RecordDamaged(HolonsError, ValueError):
    """A stored record that is missing, torn or not ours."""


class UnknownRecordVersion(HolonsError, ValueError):
    """A stored record that another version of Holons has written: it is whole, and cannot be read by this one."""


class LogDamaged(HolonsError, ValueError):
    """A log file that is torn, truncated or not ours. Nothing is skipped in silence."""


class RowsTrimmed(HolonsError, LookupError):
    """A read of rows that are not kept any more. Nothing is skipped in silence."""


class CheckpointLost(HolonsError, RuntimeError):
    """No stored record fits the logs any more, and the logs no longer reach back to the beginning."""


# --- warnings ------------------------------------------------------------------------------------------------------


class InputTrimmed(UserWarning):
    """A job begins behind the first rows of an input, which are no longer kept, so its first windows may lack rows."""


# --- promises that no longer hold: not caught by `except Exception`, nor by `except HolonsError` ---------------------


class InvariantBroken(PromiseBroken):
    """One of the named invariants does not hold. A bug in Holons, or damaged data."""


class NondeterministicProgram(PromiseBroken):
    """Two runs of one partition disagree (invariant: one-value). The program is not a function of its input."""


class LawBroken(HolonsError, AssertionError):
    """An aggregate or lattice that breaks a law of its kind."""
