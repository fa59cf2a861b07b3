from __future__ import annotations

import subprocess
import sys

import pytest

from holons.disk import sync, try_lock, unavailable
from holons.errors import LogUnavailable, StoreUnavailable

HOLD = """
import sys
from holons.disk import try_lock
with open(sys.argv[1], "w") as file:
    print(try_lock(file), flush=True)
    sys.stdin.read()
"""


def test_a_lock_goes_with_the_process_that_holds_it(tmp_path):
    path, pipe = tmp_path / "lock", subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with path.open("r+") as file:
            assert not try_lock(file)
            other.kill()
            other.wait()
            assert try_lock(file)


def test_files_and_folders_are_synced(tmp_path):
    sync(tmp_path)
    (tmp_path / "file").touch()
    sync(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", [LogUnavailable, StoreUnavailable])
def test_what_the_system_refuses_is_an_error_of_ours_and_all_else_passes(kind, tmp_path):
    with (
        pytest.raises(kind, match=r"cannot read the file: (.|\n)*hint: is the directory there") as caught,
        unavailable(kind, "read the file"),
    ):
        (tmp_path / "nowhere").read_bytes()
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    mine = kind("try again later")
    with pytest.raises(kind) as caught, unavailable(kind, "read the file"):
        raise mine
    assert caught.value is mine
    with pytest.raises(ZeroDivisionError), unavailable(kind, "read the file"):
        _ = 1 / 0
