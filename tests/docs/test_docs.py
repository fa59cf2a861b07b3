"""Every Python block in README.md and docs/ runs, file by file, from top to bottom.

A block is fenced with three backticks and `python`; one marked `python no-run` is only shown. Each document runs as a
script whose line numbers are those of the document, in a directory of its own. If it has blocks marked `output`, they are
what it prints, all of it and in order; three dots in them stand for anything.

Documents that need Spark (`ON_SPARK`) run in the process of the Spark tests and share its session, since to start Spark
takes longer than anything that they do with it. All others run in processes of their own, where no Java can be found.
With HOLONS_VERIFY=1 those on Spark run in processes of their own as well, as readers run them.
"""

from __future__ import annotations

import doctest
import os
import runpy
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest
from pyspark.sql import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from holons.engines.spark.session import session

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 1800
ON_SPARK = {"docs/backfill.md", "docs/dataframes.md", "docs/first-pipeline.md", "docs/running.md"}
"""The documents whose code starts Spark."""


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


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


RUNNABLE = [path for path in documents() if script_of(path.read_text(encoding="utf-8")).strip()]
WITH_SPARK = [path for path in RUNNABLE if name_of(path) in ON_SPARK]
WITHOUT_SPARK = [path for path in RUNNABLE if name_of(path) not in ON_SPARK]


def written(path: Path, directory: Path) -> Path:
    """The document's code as a script in a directory."""
    script = directory / f"{path.stem}.py"
    script.write_text(script_of(path.read_text(encoding="utf-8")), encoding="utf-8")
    return script


def run_alone(path: Path, directory: Path, **environment: str) -> None:
    """Runs a document in a process of its own."""
    done = subprocess.run(
        [sys.executable, written(path, directory)],
        cwd=directory,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{name_of(path)} (same line numbers):\n{done.stdout}\n{done.stderr}"
    check_output(path, done.stdout)


def check_output(path: Path, printed: str) -> None:
    promised = output_of(path.read_text(encoding="utf-8"))
    assert not promised or is_output(promised, printed), f"it prints:\n{printed}\nand says:\n{promised}"


@pytest.mark.parametrize("path", WITHOUT_SPARK, ids=name_of)
def test_the_code_in(path: Path, tmp_path: Path):
    run_alone(path, tmp_path, JAVA_HOME=str(tmp_path / "no Java"))


@pytest.mark.spark
@pytest.mark.parametrize("path", WITH_SPARK, ids=name_of)
def test_the_code_on_spark_in(path: Path, tmp_path: Path, monkeypatch, capsys):
    session()
    monkeypatch.chdir(tmp_path)
    resolve_paths_here(monkeypatch)
    capsys.readouterr()
    runpy.run_path(str(written(path, tmp_path)), run_name="__main__")
    check_output(path, capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.own_spark
@pytest.mark.parametrize("path", WITH_SPARK, ids=name_of)
def test_the_code_in_a_process_of_its_own_on_spark_in(path: Path, tmp_path: Path):
    run_alone(path, tmp_path)


def resolve_paths_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Spark read and write where this process is now: its JVM stays in the directory in which it was started."""
    for owner, name in (
        (DataFrameReader, "load"),
        (DataFrameReader, "parquet"),
        (DataFrameWriter, "save"),
        (DataStreamReader, "load"),
        (DataStreamWriter, "start"),
    ):
        monkeypatch.setattr(owner, name, _with_absolute_paths(getattr(owner, name)))


def _with_absolute_paths(method):
    @wraps(method)
    def resolved(self, *paths, **options):
        return method(self, *(str(Path(path).absolute()) if path else path for path in paths), **options)

    return resolved


def test_every_document_on_spark_is_there():
    assert {name_of(path) for path in WITH_SPARK} == ON_SPARK


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
