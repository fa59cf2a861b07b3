"""Ends a storm as a user would: runs the job to its end, and writes its results to files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.storms.market import job

import holons as h

_LIMIT_S = 120.0


def main(order: dict[str, Any]) -> None:
    run = h.run(
        job(order["variant"]), nodes=2, engine="embedded", log=order["site"], store=order["store"],
        settings=h.Settings(**order["settings"]),
    )  # fmt: skip
    results = run.wait(_LIMIT_S).results()
    for channel in ("tumbling", "sliding", "dear", "late", "dead"):
        results.to_polars(channel).write_parquet(Path(order["results"]) / f"{channel}.parquet")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
