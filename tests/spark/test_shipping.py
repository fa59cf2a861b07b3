"""Programs reach Spark's workers from wherever they were written: a script, a notebook, beside a script, a package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.own_spark]
ROOT = Path(__file__).parent.parent.parent

BESIDE = """
import holons as h

def weight():
    return 2

class Beside(h.Program):
    n = h.WCRDT(h.GCounter(), h.Tumbling("1s"))

    def process(self, events):
        self.n.insert(weight(), events.ts)

    def on_window(self, window):
        yield {"n": self.n[window]}
"""
LAZY = """
import folder.inner

def more():
    return folder.inner.MORE
"""
PROGRAMS = """
import folder.inner as inner
import beside
from beside import Beside
from installed_package import Installed
import holons as h

class Main(Beside):
    def process(self, events):
        self.n.insert(beside.weight() + inner.MORE, events.ts)

    def on_window(self, window):
        import lazy  # which only nodes import

        yield {"n": self.n[window] + lazy.more()}
"""
RUN = """
import os, shutil, sys, tempfile
from pathlib import Path
import numpy as np, polars as pl
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from holons.engines.directory_site import DirectorySite
from holons.engines.spark.nodes import SparkNodes
from holons.engines.spark.session import session
from holons.program import canonical
from holons.semantics import run as run_oracle
from holons.windows import END

master = os.environ["TEST_MASTER"]
os.environ["PYSPARK_PYTHON"] = sys.executable
quiet = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
spark = session() if master == "local" else quiet.master(master).getOrCreate()
rows = {"bids": [[pl.DataFrame({"ts": np.arange(50) * 100_000}), END]]}
for program in (Main(), Beside(), Installed()):
    job = h.job(program, "bids", name=type(program).__name__)
    with tempfile.TemporaryDirectory() as directory:
        site = DirectorySite(directory)
        site.load(rows)
        with SparkNodes(site, nodes=1, spark_session=spark) as nodes:
            found = nodes.run_to_end(job, 1)
    assert canonical(found) == canonical(run_oracle(job, rows)), job.name
    print(job.name, "from", type(program).__module__, "is right")
work = Path(_find_spark_home()) / "work" / spark.sparkContext.applicationId
spark.stop()
shutil.rmtree(work, ignore_errors=True)
"""
RIGHT = ["Main from __main__ is right", "Beside from beside is right", "Installed from installed_package is right"]
CELLS = """
import sys
for number, cell in enumerate(sys.stdin.read().split("# %%")):
    exec(compile(cell, f"<cell {number}>", "exec"), globals())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "lib" / "site-packages" / "installed_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BESIDE.replace("Beside", "Installed"))
    script = tmp_path / "scripts"
    (script / "folder").mkdir(parents=True)
    (script / "folder" / "__init__.py").touch()
    (script / "folder" / "inner.py").write_text("MORE = 40\n")
    (script / "beside.py").write_text(BESIDE)
    (script / "lazy.py").write_text(LAZY)
    (script / "app.py").write_text(PROGRAMS + RUN)
    return script


def run(folder: Path, *command: str | Path, master: str, cwd: Path, text: str = "") -> list[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(folder.parent / "lib" / "site-packages")])
    environment = {**os.environ, "PYTHONPATH": path, "TEST_MASTER": master, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


CLUSTER = pytest.param("local-cluster[2,1,600]", marks=pytest.mark.slow)


@pytest.mark.parametrize("master", ["local", CLUSTER])
def test_programs_of_a_script_of_a_module_beside_it_and_of_a_package(folder, tmp_path, master):
    assert run(folder, folder / "app.py", master=master, cwd=tmp_path) == RIGHT


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local", CLUSTER])
def test_programs_of_a_notebook_whose_main_module_has_no_file(folder, master):
    cells = PROGRAMS.replace("class Main", "# %%\nclass Main") + "# %%" + RUN
    assert run(folder, "-c", CELLS, master=master, cwd=folder, text=cells) == RIGHT
