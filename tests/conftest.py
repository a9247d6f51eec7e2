"""What all tests share: a run that must not skip; for those of the real kernel, a need of root."""

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail if a test that was selected did not run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
    for item in items:
        if item.path.parent.name in ("netns", "measured", "vm"):
            item.add_marker(needs_root)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
