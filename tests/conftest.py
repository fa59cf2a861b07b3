"""What all tests share: how long properties are tried, and which tests run when.

Properties run quickly and always alike (`quick`); `make verify` tries many more, new ones each time (`thorough`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Verbosity, settings

_PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "quick", max_examples=30, derandomize=True, database=None, deadline=None, suppress_health_check=_PATIENT
)
settings.register_profile(
    "thorough",
    max_examples=120,
    deadline=None,
    print_blob=True,
    suppress_health_check=_PATIENT,
    verbosity=Verbosity.normal,
)
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for minutes, and never earn back what they compile."""
os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)
_CONNECTING = str(Path(__file__).parent / "spark" / "connecting")
os.environ["PYTHONPATH"] = os.pathsep.join([_CONNECTING, *filter(None, [os.environ.get("PYTHONPATH")])])

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests only when asked for; Spark tests all in one process, so that they share its session.

    Those that cannot share one run in a second process, one at a time: more Sparks at once only slow each other down.
    """
    thorough = os.environ.get("HOLONS_VERIFY") == "1"
    for item in items:
        if item.get_closest_marker("slow") and not thorough:
            item.add_marker(pytest.mark.skip(reason="slow: runs with HOLONS_VERIFY=1 (make verify)"))
        if item.get_closest_marker("own_spark"):
            item.add_marker(pytest.mark.xdist_group("own spark"))
        elif item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


class FailuresAtOnce:
    """Names a failure when it happens: a long run that is stopped halfway has then said what failed, and why."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.line("")
            self._terminal.line(f"FAILED while running: {report.nodeid} ({report.when})", red=True)
            self._terminal.line(report.longreprtext)


@pytest.hookimpl(trylast=True)  # pytest's own terminal is configured first
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.getoption("numprocesses", None):
        config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Two Spark sessions at once would slow each other down, and look like failures: groups must hold."""
    if getattr(session.config.option, "loadgroup", False):
        loose = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if loose:
            raise pytest.UsageError(f"xdist does not keep groups together, as of {loose[0].nodeid}: another pytest?")
