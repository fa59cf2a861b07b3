"""A process that writes records in a loop is killed; what it had been told is stored is there, whole."""

import signal
import subprocess
import sys

import pytest

from holons.errors import RecordDamaged
from holons.store import DirectoryStore

WRITER = """
import itertools, sys
from holons.store import DirectoryStore
root, first = sys.argv[1], int(sys.argv[2])
store = DirectoryStore(root)
for number in itertools.count(first):
    store.put("p", (number,), number.to_bytes(8, "little") * 40_000)
    print(number, flush=True)
"""


def killed_after(acknowledged, root, first):
    """The last number that a writer was told is stored, before it was killed in the middle of something."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(root), str(first)], stdout=subprocess.PIPE, text=True)
    for _ in range(acknowledged):
        process.stdout.readline()
    process.kill()
    rest = process.communicate()[0].splitlines(keepends=True)
    numbers = [int(line) for line in rest if line.endswith("\n")]
    return numbers[-1] if numbers else first + acknowledged - 1


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    store, first = DirectoryStore(tmp_path), 0
    for acknowledged in (1, 4, 17):
        last = killed_after(acknowledged, tmp_path, first)
        positions = store.positions("p")
        assert positions[: last + 1] == [(number,) for number in range(last + 1)]
        assert len(positions) <= last + 2, "one more may have been stored than was told"
        for (number,) in positions:
            assert store.get("p", (number,)) == number.to_bytes(8, "little") * 40_000
        first = len(positions)
    store.drop("p", (first,))
    assert store.positions("p") == []
    with pytest.raises(RecordDamaged):
        store.get("p", (0,))


CUT_OFF = """
import resource, signal, sys
from holons.store import DirectoryStore
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
store = DirectoryStore(sys.argv[1])
store.put("p", (1,), bytes(9_000))
store.put("p", (2,), bytes(90_000))
"""


def test_a_writer_killed_in_the_middle_of_a_file_leaves_no_record(tmp_path):
    """The kernel kills a process whose file grows beyond its limit: always at the same byte."""
    killed = subprocess.run([sys.executable, "-c", CUT_OFF, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert [path.stat().st_size for path in tmp_path.rglob("*.part")] == [10_000]
    store = DirectoryStore(tmp_path)
    assert store.positions("p") == [(1,)]
    store.put("p", (2,), b"2")
    assert [store.get("p", (number,)) for number in (1, 2)] == [bytes(9_000), b"2"]
