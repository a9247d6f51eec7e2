"""What is read of a process of a testbed's node."""

import subprocess
from pathlib import Path

import pytest

from experiments.testbed.node import Process
from tributary.settings.errors import CommandError, Exit


def ended(log: Path, printed: str) -> Process:
    """A process that has printed this on both streams, and failed."""
    log.write_text(printed)
    process = subprocess.Popen(["false"])
    process.wait()
    return Process(process, log)


def test_a_report_is_read_also_of_who_complains_behind_it(tmp_path: Path) -> None:
    printed = 'ready\n{"wrong": 1}\n{"wrong": 2}\nload: not every byte was right\n'
    assert ended(tmp_path / "log", printed).report() == {"wrong": 2}


def test_who_reports_nothing_is_named_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="false: printed no report: load: no server answers") as caught:
        ended(tmp_path / "log", "load: no server answers\n").report()
    assert caught.value.code == Exit.SYSTEM
