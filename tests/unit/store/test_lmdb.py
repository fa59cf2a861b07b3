"""The LMDB store: several writers, stopped and dead ones, damage."""

import os
import subprocess
import sys

import pytest

from holons.errors import RecordDamaged, StoreUnavailable
from holons.store import LmdbStore
from holons.store.environments import environments, reading

SMALL = 1 << 20


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def open_store(root):
    stores = []

    def open_store(writer, **settings):
        stores.append(LmdbStore(root, writer, map_bytes=SMALL, **settings))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def in_another_process(code, root):
    """Runs code that prints one line and then waits; returns once the line is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_readers_merge_over_writers(open_store):
    one, two = open_store("one"), open_store("two")
    one.put("p", (1,), b"1")
    two.put("p", (2,), b"2")
    one.put("p", (3,), b"3")
    for reader in (one, two, open_store("three")):
        assert reader.positions("p") == [(1,), (2,), (3,)]
        assert [reader.get("p", (number,)) for number in (1, 2, 3)] == [b"1", b"2", b"3"]


def test_the_first_writer_wins(open_store):
    one, two = open_store("one"), open_store("two")
    two.put("p", (1,), b"first")
    one.put("p", (1,), b"second")
    assert one.get("p", (1,)) == two.get("p", (1,)) == b"first"


def test_readers_prefer_the_same_of_two_records(open_store, monkeypatch):
    one, two = open_store("one"), open_store("two")
    with monkeypatch.context() as patched:
        patched.setattr(two, "_find", lambda name, position: None)
        one.put("p", (1,), b"one")
        two.put("p", (1,), b"two")
    assert one.positions("p") == [(1,)]
    assert one.get("p", (1,)) == two.get("p", (1,)) == b"one"


def test_a_process_stopped_inside_a_write_holds_up_nobody(open_store, root):
    stopped = in_another_process(
        """
import sys
from holons.store import LmdbStore
from holons.store.environments import environments
store = LmdbStore(sys.argv[1], "stopped")
store.put("p", (1,), b"1")
with environments.open(store._folder).begin(write=True) as transaction:
    transaction.put(b"half", b"done")
    print("ready", flush=True)
    sys.stdin.read()
""",
        root,
    )
    store = open_store("other")
    store.put("p", (2,), b"2")
    assert store.positions("p") == [(1,), (2,)]
    assert store.get("p", (1,)) == b"1"
    store.drop("p", (3,))
    assert store.positions("p") == [(1,)], "a living writer's records are its own to drop"
    stopped.kill()
    stopped.wait()
    store.drop("p", (3,))
    assert store.positions("p") == []


def test_the_space_of_a_dead_writer_is_given_back_once_nothing_is_left(open_store, root):
    dead, store = open_store("dead"), open_store("living")
    dead.put("p", (1,), b"1")
    dead.put("q", (1,), b"1")
    dead.close()
    store.drop("p", (2,))
    assert store.positions("q") == [(1,)]
    store.drop("q", (2,))
    assert [path.name for path in root.iterdir()] == []
    assert store.positions("q") == []


def test_a_writer_that_was_never_ready_is_removed(open_store, root):
    store = open_store("living")
    (root / "@dead").mkdir(parents=True)
    (root / "@dead" / "writer.lock").touch()
    assert store.positions("p") == []
    store.drop("p", (1,))
    assert list(root.iterdir()) == []


def test_a_writer_name_is_taken_once(open_store):
    open_store("one").put("p", (1,), b"1")
    with pytest.raises(StoreUnavailable, match="writer name of its own"):
        open_store("one").put("p", (2,), b"2")


def test_a_writer_may_come_back_under_its_name(open_store):
    first = open_store("one")
    first.put("p", (1,), b"1")
    first.close()
    again = open_store("one", durability="disk")
    again.put("p", (2,), b"2")
    assert again.positions("p") == [(1,), (2,)]


def test_the_map_grows_under_other_processes(open_store, root):
    store = open_store("one")
    store.put("p", (0,), b"0")
    reader = in_another_process(
        """
import sys
from holons.store import LmdbStore
store = LmdbStore(sys.argv[1], "reader")
assert store.positions("p") == [(0,)]
print("ready", flush=True)
sys.stdin.readline()
print(len(store.get("p", (5,))))
""",
        root,
    )
    for number in range(1, 6):
        store.put("p", (number,), bytes(SMALL))
    assert reader.communicate("go on\n")[0] == f"{SMALL}\n"
    assert reader.returncode == 0


@pytest.mark.parametrize("size", [0, 100, 4096, 8192, 20_000, SMALL - 1])
def test_a_truncated_file_is_noticed_and_other_writers_are_read(open_store, root, size):
    damaged, store = open_store("damaged"), open_store("whole")
    damaged.put("p", (1,), bytes(50_000))
    store.put("p", (2,), b"2")
    os.truncate(root / "@damaged" / "data.mdb", size)
    assert store.positions("p") == [(2,)]
    assert store.damaged_writers() == ["@damaged"]
    with pytest.raises(RecordDamaged, match="damaged"):
        store.get("p", (1,))
    store.drop("p", (3,))
    assert (root / "@damaged").exists(), "damage is kept for those who want to look at it"


def test_a_file_that_is_something_else_is_noticed(open_store, root):
    damaged, store = open_store("damaged"), open_store("whole")
    damaged.put("p", (1,), b"1")
    damaged.close()
    environments.forget(root / "@damaged")
    (root / "@damaged" / "data.mdb").write_bytes(b"?" * SMALL)
    assert store.positions("p") == []
    assert store.damaged_writers() == ["@damaged"]


def test_a_changed_byte_is_noticed_and_the_record_can_be_put_again(open_store, root):
    damaged, store = open_store("damaged"), open_store("whole")
    damaged.put("p", (1,), b"some data" * 1000)
    damaged.close()
    path = root / "@damaged" / "data.mdb"
    at = path.read_bytes().index(b"some data")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"S")
    with pytest.raises(RecordDamaged, match="checksum"):
        store.get("p", (1,))
    store.put("p", (1,), b"again")
    assert store.get("p", (1,)) == b"again"


def test_a_directory_removed_under_its_writer_is_noticed(open_store, root):
    store = open_store("one")
    store.put("p", (1,), b"1")
    for path in (root / "@one").iterdir():
        path.unlink()
    (root / "@one").rmdir()
    with pytest.raises(StoreUnavailable):
        store.put("p", (2,), b"2")
    store.put("p", (2,), b"2")
    assert store.positions("p") == [(2,)]


def test_a_store_that_cannot_be_reached_says_so(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    store = LmdbStore(tmp_path / "file", "one")
    for use in (lambda: store.put("p", (1,), b""), lambda: store.positions("p"), lambda: store.drop("p", (1,))):
        with pytest.raises(StoreUnavailable, match="hint"):
            use()


def test_a_forked_process_opens_its_own(open_store, root):
    store = open_store("parent")
    store.put("p", (1,), b"1")
    child = os.fork()
    if child == 0:
        try:
            mine = LmdbStore(root, "child", map_bytes=SMALL)
            mine.put("p", (2,), b"2")
            merged = mine.positions("p") == [(1,), (2,)]
            environment = environments.open(root / "@parent")
            with reading(environment):
                mine_by_pid = str(os.getpid()) in environment.readers()
            os._exit(0 if merged and mine_by_pid else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.put("p", (3,), b"3")
    assert store.positions("p") == [(1,), (2,), (3,)]
