"""Every Python block in README.md and docs/ runs, file by file, from top to bottom.

A block is fenced with three backticks and `python`; one marked `python no-run` is only shown. Each document runs in
a process of its own, in the active environment, as a script whose line numbers are those of the document. If it has
blocks marked `output`, they are what it prints, all of it and in order; three dots in them stand for anything.
"""

from __future__ import annotations

import doctest
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
    return "\n".join(only("python", document))


def output_of(document: str) -> str:
    """What the document says that it prints.

    >>> output_of("text\\n```output\\n1\\n```\\nmore")
    '1'
    """
    return "\n".join(line for line in only("output", document) if line)


def only(kind: str, document: str) -> list[str]:
    """The lines of the document that are in blocks of a kind; the others empty."""
    lines, fence, wanted = [], "", False
    for line in document.splitlines():
        mark = line.strip()
        if not fence and mark.startswith("```"):
            fence, wanted = mark[: len(mark) - len(mark.lstrip("`"))], mark.lstrip("`").strip() == kind
            lines.append("")
        elif fence and mark == fence:
            fence, wanted = "", False
            lines.append("")
        else:
            lines.append(line if wanted else "")
    assert not fence, "a fence is never closed"
    return lines


def is_output(promised: str, printed: str) -> bool:
    """Whether a page prints what it says. Empty lines and blanks at the ends of lines do not count."""
    lines = "\n".join(line.rstrip() for line in printed.splitlines() if line.strip())
    return doctest.OutputChecker().check_output(f"{promised}\n", f"{lines}\n", doctest.ELLIPSIS)


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
    promised = output_of(path.read_text(encoding="utf-8"))
    assert not promised or is_output(promised, done.stdout), f"it prints:\n{done.stdout}\nand says:\n{promised}"


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


def test_what_is_printed_must_be_what_is_shown():
    document = "```python\nprint(1)\n```\n```output\n1\n\n2 at ...\n```\n```output\n3\n```\n"
    assert is_output(output_of(document), "1\n2 at noon  \n\n3\n")
    assert not is_output(output_of(document), "1\n2 at noon\n")
    assert not is_output(output_of(document), "1\n2 at noon\n4\n")
