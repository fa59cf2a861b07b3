"""What nodes log reaches their driver: bounded, at the driver's level, and seldom enough."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

import pytest

from holons.cli.messages import in_words
from holons.engines.memory_site import MemorySite
from holons.engines.node_logs import LogRelay, decode_log_record, forwarding, level_wanted, with_logged_failures
from holons.errors import BadInput, CodecError, StoreUnavailable
from holons.streams import MemoryHub

NODE = "node-1#abc"


@pytest.fixture
def hub() -> MemoryHub:
    return MemoryHub()


def texts(hub: MemoryHub, node: str = NODE) -> list[str]:
    return [
        decode_log_record(message.data).text
        for message in hub.open("reader").read({}, 10_000)
        if message.writer == node
    ]


def test_what_is_logged_in_a_node_is_logged_in_its_driver_under_the_nodes_name(hub, caplog):
    with forwarding(hub.open(NODE), logging.WARNING):
        logging.getLogger("holons.node").warning("takes over %d", 3)
        logging.getLogger("my.program").error("odd row")
        logging.getLogger("my.program").info("not so important")
        warnings.warn("mind the gap", stacklevel=1)
    caplog.clear()
    relay = LogRelay(hub.open("driver"), "abc")
    relay.relay()
    relay.relay()
    told = [(record.name, record.levelname, record.message) for record in caplog.records]
    assert told[0] == ("holons.nodes.node-1", "WARNING", "node-1: takes over 3")
    assert told[1] == ("holons.nodes.node-1", "ERROR", "node-1: my.program: odd row")
    assert "mind the gap" in told[2][2]
    assert len(told) == 3
    assert "ERROR my.program: odd row" in in_words("logs", hub.open("reader").read({}, 10)[1].data)


def test_other_drivers_nodes_are_not_heard_nor_levels_that_nobody_wants(hub, caplog):
    for node in ("node-1#other", "node-1#abc.2"):
        with forwarding(hub.open(node), logging.INFO):
            logging.getLogger("x").info("hello from %s", node)
    caplog.clear()
    LogRelay(hub.open("driver"), "abc").relay()
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="holons.nodes"):
        assert level_wanted() == logging.INFO
        LogRelay(hub.open("driver"), "abc").relay()
    assert [record.message for record in caplog.records] == ["node-1: x: hello from node-1#abc.2"]
    assert level_wanted() == logging.WARNING


def test_what_ends_a_node_is_told_with_its_traceback_and_logging_is_as_before(hub):
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with pytest.raises(BadInput), forwarding(hub.open(NODE), logging.DEBUG):
        raise BadInput("no such stream")
    assert "this node ends" in texts(hub)[0]
    assert "BadInput: no such stream" in texts(hub)[0]
    assert (root.level, list(root.handlers)) == before
    logging.getLogger("x").warning("later")
    assert len(texts(hub)) == 1


def test_a_place_that_speaks_all_the_time_is_heard_now_and_then(hub, monkeypatch):
    with forwarding(hub.open(NODE), logging.WARNING):
        for number in range(1_000):
            if number == 999:
                monkeypatch.setattr("holons.engines.node_logs._REPEAT_S", 0.0)
            logging.getLogger("x").warning("row %d", number)
    assert texts(hub) == ["row 0", "row 999 (and 998 like it before)"]


def test_the_stream_is_bounded_and_so_is_a_text(hub):
    with forwarding(hub.open(NODE), logging.WARNING):
        for number in range(2_500):
            logging.getLogger("holons.node").warning("%d %s", number, "x" * 20_000)
    kept = texts(hub)
    assert 1_000 <= len(kept) <= 1_200
    assert kept[-1].startswith("2499 ")
    assert max(map(len, kept)) == 10_000


def test_a_store_that_does_not_answer_is_logged_and_still_raises(hub):
    class Broken:
        writer = "me"

        def put(self, name: str) -> None:
            raise StoreUnavailable(f"cannot store {name}: no space left")

    store = with_logged_failures(replace(MemorySite({}).ports("node"), store=Broken())).store
    assert store.writer == "me"
    with forwarding(hub.open(NODE), logging.WARNING):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                store.put("a")
    assert texts(hub) == ["cannot store a: no space left"]


def test_what_is_not_ours_is_named():
    with pytest.raises(CodecError, match="not a log record"):
        decode_log_record(b"\x00")
