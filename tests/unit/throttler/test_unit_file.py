"""The systemd unit, judged by systemd's own tools; nothing is started."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[3] / "throttler" / "systemd" / "tributary-throttler.service"

systemd_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@systemd_analyze
def test_systemd_accepts_every_line(tmp_path: Path) -> None:
    # A program that is there, since the package is not installed on a developer's machine.
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE))
    result = analyze("verify", "--man=no", str(copy))
    assert result.returncode == 0, result.stderr
    assert UNIT.name not in result.stderr


@systemd_analyze
def test_its_exposure_is_below_three() -> None:
    result = analyze("security", "--offline=true", str(UNIT))
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", result.stdout)
    assert found is not None, result.stderr
    assert float(found[1]) < 3


def test_it_keeps_two_capabilities() -> None:
    assert "\nCapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW\n" in UNIT.read_text()
