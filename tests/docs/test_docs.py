"""Every Python block in README.md and docs/ runs, file by file, from top to bottom.

A block is fenced with three backticks and `python`; one marked `python no-run` is only shown. Each document runs in
a process of its own, in the active environment, as a script whose line numbers are those of the document.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 600


def script_of(document: str) -> str:
    """The document with everything but its runnable code blanked out, so that lines keep their numbers.

    >>> script_of("text\\n```python\\nx = 1\\n```\\nmore")
    '\\n\\nx = 1\\n\\n'
    """
    lines, fence, runs = [], "", False
    for line in document.splitlines():
        mark = line.strip()
        if not fence and mark.startswith("```"):
            fence, runs = mark[: len(mark) - len(mark.lstrip("`"))], mark.lstrip("`").strip() == "python"
            lines.append("")
        elif fence and mark == fence:
            fence, runs = "", False
            lines.append("")
        else:
            lines.append(line if runs else "")
    assert not fence, "a fence is never closed"
    return "\n".join(lines)


def documents() -> list[Path]:
    return sorted(path for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if path.exists())


RUNNABLE = [path for path in documents() if script_of(path.read_text(encoding="utf-8")).strip()]


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_in(path: Path, tmp_path: Path):
    script = tmp_path / f"{path.stem}.py"
    script.write_text(script_of(path.read_text(encoding="utf-8")), encoding="utf-8")
    active = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=active,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{path.relative_to(ROOT)} (same line numbers):\n{done.stdout}\n{done.stderr}"


def test_there_are_documents():
    assert documents()


def test_only_blocks_to_be_run_are_run():
    document = (
        "```python\na = 1\n```\n```python no-run\nb = 2\n```\n```sh\nmake\n```\n````md\n```python\nc\n```\n````\n"
    )
    assert script_of(document).split("\n") == ["", "a = 1", *[""] * 12]


def test_an_open_fence_is_an_error():
    with pytest.raises(AssertionError, match="never closed"):
        script_of("```python\nx = 1\n")
