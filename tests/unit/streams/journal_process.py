"""What the other processes of the journal tests do: `python -m tests.unit.streams.journal_process ROLE DIRECTORY …`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.streams.log_kinds import flat
from tests.unit.streams.segment_process import say

from holons.streams import DirectoryJournal, JournaledLog
from holons.streams.segments import SegmentLog


def propose_until(directory: str, name: str, end: str) -> None:
    """Proposes entries one after the other, and says who won each."""
    journal = DirectoryJournal(directory)
    say("ready")
    sys.stdin.readline()
    for number in range(int(end)):
        won = journal.propose(0, number, f"{name}:{number}".encode() * 50)
        assert won is not None
        say(won[: won.index(b":")].decode())


def read_and_mark_until(directory: str, name: str, end: str) -> None:
    """Reads an input and marks it wherever it seems to be idle; says what it read, in pieces."""
    foreign = SegmentLog(directory, "rows", 1, f"reader {name}")
    log = JournaledLog(foreign, DirectoryJournal(Path(directory) / "journal"))
    say("ready")
    sys.stdin.readline()
    at = 0
    while log.foreign_offset(0, at) < int(end):
        chunks = log.read(0, at, 7)
        for one in flat(chunks):
            say(f"{at} {one}")
            at += 1
        if not chunks:
            log.mark(0, at)
    say("done")


ROLES = {role.__name__: role for role in (propose_until, read_and_mark_until)}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
