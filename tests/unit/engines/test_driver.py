"""What a node process does before it is one."""

import subprocess
import sys

import pytest

LIFE = """
import sys
from holons.engines.driver import Birth, live
from holons.engines.directory_site import DirectorySite
from holons.node import Settings
assert "pandas" not in sys.modules
live(Birth(DirectorySite(sys.argv[1]), "node-1#1", Settings(), b"secret"), lambda: "pandas" not in sys.modules)
assert "pandas" in sys.modules
"""


def test_a_node_imports_what_takes_long_before_anybody_counts_on_it(tmp_path):
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", LIFE, str(tmp_path)], check=True, timeout=300)
