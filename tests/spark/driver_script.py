"""A driver, as a script of its own: DIRECTORY of the site, and a file whose appearance is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.workloads import load

from holons.engines.directory_site import DirectorySite
from holons.engines.spark.nodes import SparkNodes
from holons.node import Settings


class Driver(SparkNodes):
    def replace_the_dead(self) -> list[str]:
        if Path(sys.argv[2]).exists():
            raise RuntimeError("the driver's own code has failed")
        return super().replace_the_dead()


if __name__ == "__main__":
    settings = Settings(heartbeat_s=0.05, failure_timeout_s=0.5, checkpoint_s=0.1)
    with Driver(DirectorySite(sys.argv[1]), settings, nodes=2) as nodes:
        nodes.run_to_end(load("bid_share"), nodes=2)
