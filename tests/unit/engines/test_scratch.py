from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from holons.engines.scratch import scratch, sweep


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_afterwards_whatever_happens(temporary):
    with pytest.raises(FileNotFoundError), scratch() as directory:
        (directory / "no" / "such").mkdir()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_leaves_is_removed_by_the_next_and_what_lives_is_not(temporary):
    script = "from holons.engines.scratch import scratch\nwith scratch() as d: print(d, flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    theirs = process.stdout.readline().strip()
    (temporary / "holons-not-ours").mkdir()
    with scratch() as ours:
        assert {str(path) for path in temporary.iterdir()} == {theirs, str(ours), str(temporary / "holons-not-ours")}
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert [str(path) for path in sweep()] == [theirs]
        assert ours.exists()
    assert [path.name for path in temporary.iterdir()] == ["holons-not-ours"]
