"""The grid: who holds what, what is durable, and what is left when nodes die."""

import pytest
from tests.unit.store.grids import Clock, Grid

from holons.errors import CodecError, RecordDamaged, StoreUnavailable
from holons.store import GridStore
from holons.store.letters import Put, decode
from holons.streams import StreamFolder

NODES = ["a", "b", "c", "d", "e"]


@pytest.fixture(params=[None, 1, 2, 3], ids=["good mail", "bad mail 1", "bad mail 2", "bad mail 3"])
def grid(request):
    grid = Grid(NODES, copies=2, seed=request.param)
    grid.turn()
    return grid


def kept(grid, name="p", position=(1,), writer="a"):
    """Puts a record and waits until it is durable; returns who holds it besides the writer."""
    grid.stores[writer].put(name, position, b"data of %d" % position[0])
    grid.until(lambda: position in grid.stores[writer].durable(name))
    return [node for node, positions in grid.holders(name).items() if position in positions and node != writer]


def test_a_record_is_held_by_its_writer_and_so_many_others(grid):
    assert len(kept(grid)) == 2


def test_nothing_is_durable_before_so_many_others_have_acknowledged():
    grid = Grid(["a", "b", "c", "d"], copies=2)
    grid.turn()
    grid.stores["a"].put("p", (1,), b"1")
    assert grid.stores["a"].durable("p") == []
    grid.turn("a")
    first, second = (node for node, store in grid.stores.items() if node != "a" and _is_sent(store, "p", (1,)))
    assert grid.stores["a"].durable("p") == []
    for _ in range(5):  # one of them says it again and again
        grid.turn("a", first)
        grid.stores[first]._changed.add("p")
    assert grid.stores["a"].durable("p") == []
    grid.turn(second)
    grid.turn("a")
    assert grid.stores["a"].durable("p") == [(1,)]


def _is_sent(store, name, position):
    """Lets a node look into its mail; says whether it was sent a record."""
    before = dict(store._cursor)
    letters = store._mail.read(before, 1000)
    puts = [letter for letter in map(decode, (one.data for one in letters)) if isinstance(letter, Put)]
    return any(store._me in put.to for put in puts)


def test_with_too_few_others_nothing_is_ever_durable():
    grid = Grid(["a", "b"], copies=2)
    grid.stores["a"].put("p", (1,), b"1")
    grid.settle()
    assert grid.stores["a"].durable("p") == []
    assert grid.holders("p") == {"a": [(1,)], "b": [(1,)]}
    grid.join("c")
    grid.until(lambda: grid.stores["a"].durable("p") == [(1,)])


def test_a_record_survives_its_writer(grid):
    kept(grid)
    grid.die("a")
    for node in ("b", "c", "d", "e"):
        store = grid.stores[node]
        assert grid.answer(lambda store=store: store.positions("p")) == [(1,)]
        assert grid.answer(lambda store=store: store.get("p", (1,))) == b"data of 1"


def test_a_record_that_one_live_node_holds_is_found_though_it_is_not_durable(grid):
    others = kept(grid)
    grid.die("a", others[0])
    reader = next(node for node in grid.stores if node != others[1])
    assert grid.answer(lambda: grid.stores[reader].positions("p")) == [(1,)]
    assert grid.answer(lambda: grid.stores[reader].get("p", (1,))) == b"data of 1"


def test_a_holder_that_dies_is_replaced_and_until_then_the_record_is_not_durable(grid):
    lost = kept(grid)[0]
    grid.die(lost)
    grid.stores["a"]._live = frozenset(grid.stores)
    assert grid.stores["a"].durable("p") == []
    grid.until(lambda: grid.stores["a"].durable("p") == [(1,)])


def test_records_outlive_any_number_of_deaths_one_after_the_other(grid):
    kept(grid)
    for number, node in enumerate(NODES):
        grid.join(f"new-{number}")
        grid.settle()
        grid.die(node)
        grid.settle()
        assert sum(bool(positions) for positions in grid.holders("p").values()) == 3
    assert grid.answer(lambda: grid.stores["new-4"].get("p", (1,))) == b"data of 1"


def test_if_all_holders_die_at_once_nothing_is_found():
    grid = Grid(NODES, copies=2)
    grid.turn()
    grid.die("a", *kept(grid))
    reader = grid.stores[next(iter(grid.stores))]
    assert grid.answer(lambda: reader.positions("p")) == []
    with pytest.raises(RecordDamaged, match="there is no record"):
        reader.get("p", (1,))


def test_one_that_looked_dead_and_comes_back_still_counts():
    grid = Grid(["a", "b", "c"], copies=2)
    grid.turn()
    kept(grid)
    stalled = grid.stores.pop("b")
    grid.settle()
    assert grid.stores["a"].durable("p") == []
    grid.stores["b"] = stalled
    grid.turn()
    assert grid.stores["a"].durable("p") == [(1,)]


def test_one_that_comes_back_forgets_what_was_dropped_meanwhile(grid):
    stalled = kept(grid)[0]
    store = grid.stores.pop(stalled)
    grid.stores["a"].drop("p", (2,))
    grid.settle(200)  # long after the letters about it have gone
    grid.stores[stalled] = store
    grid.until(lambda: not any(grid.holders("p").values()))


def test_a_new_incarnation_holds_nothing():
    grid = Grid(["a", "b", "c"], copies=2)
    grid.turn()
    kept(grid)
    grid.die("b")
    grid.join("b#2")
    grid.turn("a")
    assert grid.stores["a"].durable("p") == []
    grid.until(lambda: grid.stores["a"].durable("p") == [(1,)])
    assert grid.holders("p")["b#2"] == [(1,)]


def test_one_that_leaves_hands_its_records_over_before_it_goes(grid):
    grid.leaving.update(["a", *kept(grid)])
    gone = grid.turn(*grid.leaving)
    assert not gone, "nobody has taken them over yet"
    grid.until(lambda: gone.update(grid.turn()) or gone >= grid.leaving)
    grid.die(*grid.leaving)
    assert grid.holders("p") == {node: [(1,)] for node in grid.stores}


def test_the_last_one_may_not_go():
    grid = Grid(["a"], copies=1)
    grid.stores["a"].put("p", (1,), b"1")
    grid.leaving.add("a")
    grid.settle()
    assert grid.turn() == set()


def test_recovery_waits_until_all_live_nodes_have_answered():
    grid = Grid(NODES, copies=2)
    kept(grid)
    grid.settle()
    reader = grid.stores["e"]
    with pytest.raises(StoreUnavailable, match="a, b, c, d"):
        reader.positions("p")
    grid.turn("e")
    grid.turn("a", "b", "c")
    grid.turn("e")
    with pytest.raises(StoreUnavailable, match="yet: d"):
        reader.positions("p")
    grid.die("d")
    grid.turn("e")
    assert reader.positions("p") == [(1,)]


def test_before_anybody_is_known_nothing_is_said():
    with pytest.raises(StoreUnavailable, match="nobody is known"):
        Grid(["a"], copies=1).stores["a"].positions("p")


def test_an_answer_is_not_used_for_ever():
    grid = Grid(["a", "b", "c"], copies=1)
    grid.turn()
    reader = grid.stores["c"]
    assert grid.answer(lambda: reader.positions("p")) == []
    grid.clock.s += 6.0
    with pytest.raises(StoreUnavailable):
        reader.positions("p")


def test_what_is_dropped_is_dropped_everywhere_and_stays_so(grid):
    for number in range(1, 4):
        kept(grid, position=(number,))
    grid.stores["a"].drop("p", (3,))
    grid.until(lambda: all(positions in ([], [(3,)]) for positions in grid.holders("p").values()))
    grid.stores["b"].put("p", (2,), b"late")
    grid.settle()
    assert sum(len(positions) for positions in grid.holders("p").values()) >= 3
    assert all(positions in ([], [(3,)]) for positions in grid.holders("p").values())


def test_memory_and_mail_stay_bounded_over_many_checkpoints(grid):
    size, held, mailed = 1000, [], []
    for number in range(1, 301):
        for writer, name in (("a", "p"), ("b", "q")):
            store = grid.stores[writer]
            store.put(name, (number,), bytes(size))
            durable = store.durable(name)
            if len(durable) > 2:
                store.drop(name, durable[-2])
        for _ in range(5):
            grid.turn()
        held.append(sum(store.bytes_held() for store in grid.stores.values()))
        mailed.append(grid.hub.bytes_held())
    per_record = 3 * size
    assert max(held) < 2 * 12 * per_record
    assert max(mailed[150:]) < 1.3 * max(mailed[:150]), "letters pile up"
    assert max(len(store._records.get("p", {})) for store in grid.stores.values()) < 12


def test_the_letters_of_the_dead_are_removed():
    grid = Grid(["a", "b", "c"], copies=1)
    kept(grid, writer="a")
    grid.die("a")
    grid.settle(300)
    assert grid.hub.read({}, 1000)
    assert not [message for message in grid.hub.read({}, 1000) if message.writer == "a"]


def test_letters_that_are_not_ours_are_refused():
    grid = Grid(["a", "b"], copies=1)
    grid.hub.open("b").append(b"?")
    with pytest.raises(CodecError, match="not a letter"):
        grid.turn("a")


def test_the_grid_runs_over_streams_between_processes(tmp_path):
    clock = Clock()
    logs = [StreamFolder(tmp_path).open_shared("grid", node) for node in ("a#1", "b#1", "c#1")]
    stores = [GridStore(log, clock, copies=2) for log in logs]
    stores[0].put("p", (1,), b"1")
    for _ in range(4):
        clock.s += 0.1
        for store in stores:
            store.tend([log.writer for log in logs])
    assert stores[0].durable("p") == [(1,)]
    assert [store.get("p", (1,)) for store in stores] == [b"1"] * 3
    for log in logs:
        log.close()
