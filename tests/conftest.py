"""What all tests share: a run that must not skip, workers that are apart; for those of the kernel, a need of root."""

import os

import pytest
from hypothesis import settings

from tests.apart import set_apart

SKIPPED = 6
"""The exit code where a test did not run that had to: none of pytest's own, since another try would not help."""

# What a busy machine takes for one example says nothing of the code.
settings.register_profile("tributary", deadline=None)
settings.load_profile("tributary")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--apart", action="store_true", help="each worker with network namespaces of its own")
    parser.addoption("--no-skips", action="store_true", help="fail if a test that was selected did not run")


def pytest_sessionstart(session: pytest.Session) -> None:
    # Not earlier: pytest-rerunfailures has connected its workers by now.
    if session.config.getoption("--apart") and hasattr(session.config, "workerinput") and os.geteuid() == 0:
        session.config.add_cleanup(set_apart().cleanup)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
    for item in items:
        if item.path.parent.name in ("claims", "netns", "measured", "vm"):
            item.add_marker(needs_root)
    # Where files run side by side, a long one that begins last is all that runs.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what each test that was run again had failed with: the one that passed leaves no trace of it."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_line(f"again: {report.nodeid}: {report.longreprtext.strip()[-400:]}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    over = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if session.config.getoption("--no-skips") and over and reporter and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED
