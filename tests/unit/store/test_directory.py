"""The directory store: its files, damage, leftovers, writers at the same time."""

import os
import threading
from pathlib import Path

import pytest
from pyarrow import fs

from holons.errors import RecordDamaged, StoreUnavailable
from holons.store import DirectoryStore

LEFTOVER = "at_p019.record." + "0" * 32 + ".part"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(root):
    return DirectoryStore(root)


def files(root: Path):
    return sorted(path for path in root.rglob("*") if path.is_file())


def only_file(root: Path):
    (path,) = files(root)
    return path


def test_files_list_in_the_order_of_positions(store, root):
    ascending = [(), (-7,), (-7, 2), (3,), (3, 1), (12,)]
    for position in reversed(ascending):
        store.put("p", position, str(position).encode())
    assert [path.read_bytes()[20:].decode() for path in files(root)] == [str(position) for position in ascending]


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: b"",
        lambda stored: stored[:10],
        lambda stored: stored[:-1],
        lambda stored: stored + b"\0",
        lambda stored: stored[:-1] + b"?",
        lambda stored: b"PAR1" + stored[4:],
        lambda stored: bytes(len(stored)),
    ],
    ids=["empty", "half a header", "cut off", "too long", "changed", "foreign", "zeros"],
)
def test_damage_is_noticed_and_the_other_records_stay(store, root, damage):
    store.put("p", (1,), b"record 1")
    path = only_file(root)
    store.put("p", (2,), b"record 2")
    path.write_bytes(damage(path.read_bytes()))
    assert store.positions("p") == [(1,), (2,)]
    with pytest.raises(RecordDamaged):
        store.get("p", (1,))
    assert store.get("p", (2,)) == b"record 2"


def test_a_damaged_record_can_be_put_again(store, root):
    store.put("p", (1,), b"first")
    only_file(root).write_bytes(b"torn")
    store.put("p", (1,), b"again")
    assert store.get("p", (1,)) == b"again"
    assert only_file(root)


def test_a_record_moved_to_another_name_is_damaged(store, root):
    store.put("p", (1,), b"1")
    path = only_file(root)
    path.rename(path.with_name(path.name.replace("p011", "p012")))
    with pytest.raises(RecordDamaged, match="checksum"):
        store.get("p", (2,))


def test_files_of_others_are_neither_listed_nor_removed(store, root):
    store.put("p", (5,), b"5")
    folder = only_file(root).parent
    for name in ("README", "at_p011.record.bak", "at_p11.record", ".DS_Store", "at_p021.record"):
        (folder / name).write_bytes(b"not ours")
        os.utime(folder / name, (0, 0))
    (folder / "at_p013.record").mkdir()
    assert store.positions("p") == [(5,)]
    store.drop("p", (9,))
    assert len(files(root)) == 5


def test_leftovers_of_killed_writers_are_never_read(store, root):
    store.put("p", (1,), b"1")
    (only_file(root).parent / LEFTOVER).write_bytes(b"torn")
    assert store.positions("p") == [(1,)]


def test_old_leftovers_are_removed_and_young_ones_are_not(store, root):
    store.put("p", (5,), b"5")
    record = only_file(root)
    old, young = record.with_name(LEFTOVER), record.with_name(LEFTOVER.replace("000", "fff"))
    now = record.stat().st_mtime
    for path, age_s in ((old, 3700), (young, 3500)):
        path.write_bytes(b"torn")
        os.utime(path, (now - age_s, now - age_s))
    store.drop("p", (1,))
    assert files(root) == sorted([record, young])


def test_nothing_is_left_behind_by_writers_that_live(store, root):
    for _ in range(2):
        for number in range(3):
            store.put("p", (number,), bytes(1000))
    assert len(files(root)) == 3


@pytest.mark.parametrize("local", [True, False], ids=["local", "foreign"])
def test_of_several_writers_at_once_one_wins_and_none_fails(root, local):
    filesystem = None if local else fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    stores = [DirectoryStore(root, filesystem=filesystem) for _ in range(4)]
    together, failures = threading.Barrier(4), []

    def write(number):
        try:
            for position in range(20):
                together.wait(timeout=600)
                stores[number].put("p", (position,), f"{number}".encode() * 100_000)
        except BaseException as error:
            failures.append(error)
            together.abort()
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for position in range(20):
        data = stores[0].get("p", (position,))
        assert len(data) == 100_000
        assert data in [f"{number}".encode() * 100_000 for number in range(4)]
    assert len(files(root)) == 20


def test_the_first_writer_wins_even_if_the_second_did_not_see_it(store, root, monkeypatch):
    other = DirectoryStore(root)
    seen = iter([False])
    monkeypatch.setattr(other, "_is_whole", lambda name, position: next(seen, True))
    store.put("p", (1,), b"first")
    other.put("p", (1,), b"second")
    assert store.get("p", (1,)) == b"first"
    assert only_file(root)


def test_without_hard_links_records_are_moved(store, root, monkeypatch):
    def no_links(*paths):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    store.put("p", (1,), b"1")
    store.put("p", (1,), b"2")
    assert store.get("p", (1,)) == b"1"
    assert only_file(root)


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.put("p", (1,), b""),
        lambda store: store.positions("p"),
        lambda store: store.get("p", (1,)),
        lambda store: store.drop("p", (1,)),
    ],
    ids=["put", "positions", "get", "drop"],
)
def test_a_store_that_cannot_be_reached_says_so(tmp_path, use):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StoreUnavailable, match="hint"):
        use(DirectoryStore(tmp_path / "file"))


def test_a_write_that_fails_leaves_nothing(store, root, monkeypatch):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        store.put("p", (1,), b"1")
    assert files(root) == []


def test_an_address_chooses_the_file_system(tmp_path):
    DirectoryStore(f"file://{tmp_path}/store").put("p", (1,), b"1")
    assert DirectoryStore(tmp_path / "store").get("p", (1,)) == b"1"


def test_a_relative_root_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = DirectoryStore("store")
    store.put("p", (1,), b"1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert store.get("p", (1,)) == b"1"
