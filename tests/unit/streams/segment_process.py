"""What the other processes of the segment tests do: `python -m tests.unit.streams.segment_process ROLE DIRECTORY …`.

They print a line when they have got somewhere, and read a line where they wait.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.unit.streams.log_kinds import flat, rows

from holons.engines.directory_site import DirectorySite
from holons.errors import ProducerFenced
from holons.streams.segments import SegmentLog, SegmentSharedLog
from holons.streams.segments.writer import Entry, OpenSegment

STREAM = "rows"


def say(text: object) -> None:
    print(text, flush=True)


def append_until_killed(directory: str, writer: str) -> None:
    """Appends numbered rows, and says up to where they were acknowledged."""
    log = SegmentLog(directory, STREAM, 1, writer, segment_bytes=40_000)
    at = log.end(0)
    while True:
        length = 1 + at % 37
        log.append(0, rows(*range(at, at + length)))
        at += length
        say(at)


def put_until(directory: str, writer: str, end: str, length: str) -> None:
    """Puts the rows that belong to every position, in cuts of its own."""
    log = SegmentLog(directory, STREAM, 1, writer, segment_bytes=20_000)
    say("ready")
    sys.stdin.readline()
    for at in range(0, int(end), int(length)):
        log.put(0, at, rows(*range(at, min(at + int(length), int(end)))))
    log.close()
    say(log.end(0))


def stop_inside_a_write(directory: str, writer: str) -> None:
    """Commits three rows and a message, then stays inside the next write of both, until it reads a line."""
    log = SegmentLog(directory, STREAM, 1, writer)
    shared = SegmentSharedLog(directory, "messages", writer)
    log.append(0, rows(0, 1, 2))
    shared.append(b"before")

    def entries() -> Iterator[Entry]:
        yield Entry(0, 3, rows(3))
        if not shared.read({writer: 1}, 1):
            shared._writer.write(0, messages)

    def messages() -> Iterator[Entry]:
        yield Entry(0, 1, b"inside")
        say("inside")
        sys.stdin.readline()

    log._writer.write(0, entries)
    say("committed")


def work_beside(directory: str, writer: str) -> None:
    """Reads what others wrote, writes more, trims it, and reads again."""
    log = SegmentLog(directory, STREAM, 1, writer)
    shared = SegmentSharedLog(directory, "messages", writer)
    assert flat(log.read(0, 0, 100)) == [0, 1, 2]
    assert log.put(0, 0, rows(0, 1, 2, 3)) is True
    assert log.append(0, rows(4, 5)) == 4
    shared.append(b"mine")
    assert sorted(message.data for message in shared.read({}, 10)) == [b"before", b"mine"]
    trimmer = SegmentLog(directory, STREAM, 1, f"{writer}, trimming", idle_s=0)
    trimmer.trim(0, 4)
    assert flat(log.read(0, 0, 100)) == [4, 5]
    say("done")


def read_on_demand(directory: str) -> None:
    """For each line: reads what is new, and says how many rows there are now, and their sum."""
    log = SegmentLog(directory, STREAM, 1, "reader")
    at = total = 0
    say("ready")
    while sys.stdin.readline():
        while chunks := log.read(0, at, 1_000):
            total += sum(int(value) for value in flat(chunks))
            at = chunks[-1].offset + chunks[-1].length
        say(f"{at} {total}")


def write_messages_on_demand(directory: str, writer: str) -> None:
    """For each line: appends it as a message."""
    log = SegmentSharedLog(directory, "messages", writer)
    say("ready")
    while line := sys.stdin.readline():
        say(log.append(line.strip().encode()))


def append_where_told(directory: str) -> None:
    """Appends 100 rows as a producer; then, where told, stands still between choosing a position and committing."""
    log = DirectorySite(directory).producer(STREAM, 1, "slow")
    log.append(0, rows(*range(100)))
    say(log.end(0))
    sys.stdin.readline()
    publish = OpenSegment.publish

    def stands_still(segment: OpenSegment) -> None:
        say("standing still")
        sys.stdin.readline()
        publish(segment)

    OpenSegment.publish = stands_still
    try:
        log.append(0, rows(*range(500, 550)))
        say("acknowledged")
    except ProducerFenced as error:
        say(type(error).__name__)


def append_until_fenced(directory: str, number: str) -> None:
    """Appends rows that nobody else appends, and says which were acknowledged."""
    log = DirectorySite(directory).producer(STREAM, 1, f"producer#{number}")
    value = int(number) * 1_000_000
    while True:
        try:
            log.append(0, rows(value))
        except ProducerFenced:
            return
        say(value)
        value += 1


ROLES = {
    role.__name__: role
    for role in (
        append_until_fenced,
        append_until_killed,
        append_where_told,
        put_until,
        stop_inside_a_write,
        work_beside,
        read_on_demand,
        write_messages_on_demand,
    )
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
