"""What rows, names, errors and logs hold never commands the terminal: seen through a real one."""

from __future__ import annotations

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console
from rich.table import Table

import holons
from holons.cli.terminal import Terminal
from holons.engines import html
from holons.engines.directory_site import DirectorySite
from holons.engines.node_logs import LogRelay, NodeLogRecord
from holons.errors import ProgramFailed
from holons.node.messages import Stopped
from holons.streams import MemoryHub
from holons.visible import visible
from holons.windows import END
from holons.wire import encode

EVIL = {
    "escape": "\x1b[31mred",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "bell": "a\x07b",
    "return": "evil\rgood",
    "backspace": "evil\x08\x08",
    "eight bits": "\x9b31mred",
    "direction": "\u202egood",
    "isolate": "\u2066good",
}
MARKUP = "[red]x[/red][link=http://evil]y[/link]"
ALL = "".join(EVIL.values())

PROGRAM = """
import logging
import holons as h

EVIL = {evil!r}

class Evil(h.Program):
    n = h.WCRDT(h.MergeMap(h.GCounter()), h.Tumbling("1s"))

    def process(self, events):
        logging.getLogger("app").warning("logged: " + EVIL)
        self.n.insert((events["text"], 1), events.ts)

    def on_window(self, window):
        for text, n in sorted(self.n[window].to_dict().items()):
            yield {{"text": text, "n": n, "more": [text], "markup": {markup!r}}}

class Fails(Evil):
    def on_window(self, window):
        raise ValueError("raised: " + EVIL + "\\ud800")

job = h.job(Evil(), "rows")
fails = h.job(Fails(), "rows", name="fails")
"""

COMMANDS = """
import sys
from holons.cli import main
for words in {commands!r}:
    try:
        main(words)
    except SystemExit as ended:
        print("ended:", ended.code, flush=True)
"""


def through_a_terminal(directory: Path, *commands: list[str]) -> bytes:
    """Returns what commands print on a terminal."""
    ours, theirs = pty.openpty()
    script = COMMANDS.format(commands=commands)
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "50", "PYTHONUTF8": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment
    ) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                more = os.read(ours, 65_536)
            except OSError:  # what a terminal says when nobody has it open any more
                break
            if not more:
                break
            printed += more
        os.close(ours)
        process.wait(60)
    return printed


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(PROGRAM.format(evil=ALL, markup=MARKUP))
    rows = pa.record_batch(
        {
            "ts": [1_000_000 * place for place in range(len(EVIL) + 1)],
            "text": [*EVIL.values(), MARKUP],
            f"evil {EVIL['escape']}{EVIL['direction']}": ["x"] * (len(EVIL) + 1),
        }
    )
    site = DirectorySite(tmp_path / "site")
    with site.producer("rows", 1, "producer#1") as log:
        log.append(0, rows, live=False)
        log.mark(0, END.ts)
    with site.shared("notes", "somebody") as notes:
        notes.append(ALL.encode())
    with site.shared("logs", "node-1#7") as logs:
        logs.append(encode(NodeLogRecord("node-1#7", 0.0, 30, "app", ALL)))
    return tmp_path


def assert_harmless(printed: bytes, *, shown: bool = True) -> None:
    for kind, text in EVIL.items():
        at = printed.find(text.encode())
        assert at < 0, f"{kind} reached the terminal: {printed[max(at - 300, 0) : at + 100]!r}"
    assert b"\x1b]" not in printed, "the terminal's title or clipboard"
    if shown:
        assert rb"\x1b]52;c;ZXZpbA==\x07" in printed, "values are there, written out"
        assert rb"\u202egood" in printed


def test_rows_messages_and_explanations(site):
    log = ["--log", "site"]
    printed = through_a_terminal(
        site,
        ["log", "ls", "site"],
        ["log", "head", "input/rows", *log],
        ["log", "tail", "input/rows", *log],
        ["log", "stat", "input/rows", *log],
        ["log", "tail", "shared/logs", *log],
        ["log", "tail", "shared/notes", *log],
        ["why", "app.py:job", "1000000", *log],
        ["log", "head", ALL, *log],
    )
    assert printed.count(b"ended: 0") == 7, printed.decode(errors="replace")
    assert b"ended: 1" in printed
    assert_harmless(printed)
    assert MARKUP.encode() in printed, "markup is text"
    assert b"logged: " in printed, "why runs the program here"


def test_a_run(site):
    printed = through_a_terminal(site, ["run", "app.py:job", "--engine", "embedded", "--nodes", "1", "--log", "site"])
    assert b"ended: 0" in printed, printed.decode(errors="replace")
    assert_harmless(printed)
    assert b"logged: " in printed


@pytest.mark.slow
def test_a_run_whose_program_fails(site):
    printed = through_a_terminal(site, ["run", "app.py:fails", "--engine", "embedded", "--nodes", "1", "--log", "site"])
    assert b"ended: 1" in printed, printed.decode(errors="replace")
    assert_harmless(printed)
    assert rb"\ud800" in printed


def test_errors_of_users_modules(site):
    (site / "bad.py").write_text(f"raise ValueError({ALL!r} + chr(0xd800))\n")
    assert_harmless(through_a_terminal(site, ["run", "bad.py:job"]))


def test_nothing_is_printed_past_the_terminal():
    """Commands make no other consoles."""
    for path in (Path(holons.__file__).parent / "cli").glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not any(ast.unparse(call.func).endswith("Console") for call in calls), path


def test_the_net_below_all_tables(capsys):
    console, table = Terminal(force_terminal=True, width=60), Table()
    assert isinstance(console, Console)
    table.add_column("text")
    table.add_row(EVIL["escape"])
    console.print(table)
    printed = capsys.readouterr().out
    assert EVIL["escape"] not in printed
    assert r"\x1b[31mred" in printed


def test_text_that_cannot_be_written_is_visible():
    assert visible("a\ud800\tb\n") == "a\\ud800\tb\n"
    assert visible("zoë 🙂 שלום") == "zoë 🙂 שלום"


def test_notebooks_show_text_as_text():
    shown = html.table([{"text": f"<script>{ALL}\ud800</script>"}], caption="<b>\u202e") + html.trouble(f"<img {ALL}>")
    assert "<script" not in shown
    assert "<img" not in shown
    assert all(text not in shown for text in EVIL.values())
    shown.encode()


def test_errors_that_cannot_be_written_reach_everybody():
    try:
        raise ProgramFailed("failed") from ValueError(f"{ALL}\ud800")
    except ProgramFailed as error:
        stopped = Stopped.by("job", error)
    assert rb"\ud800" in encode(stopped)


def test_what_nodes_log_is_visible(caplog):
    hub = MemoryHub()
    hub.append("node-1#7", encode(NodeLogRecord("node-1#7", 0.0, 30, "app", ALL)))
    LogRelay(hub.open("me"), "7").relay()
    assert r"\x1b]52" in caplog.text
    assert "\x1b" not in caplog.text
