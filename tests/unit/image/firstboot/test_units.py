"""The units that the image brings for this part, judged by systemd; nothing is started."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.image.firstboot.systems import SHIPPED

UNITS = sorted(SHIPPED.parents[1].glob("*/*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_every_line(unit: Path, tmp_path: Path) -> None:
    # A program that is there, since the image's are not installed on a developer's machine.
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^(Exec\w+=-?)\S+", r"\1/bin/true", unit.read_text(), flags=re.MULTILINE))
    command = ["systemd-analyze", "--no-pager", "verify", "--man=no", str(copy)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert copy.name not in result.stderr


def test_settings_are_applied_before_whoever_reads_them_starts() -> None:
    unit = (SHIPPED.parent / "tributary-firstboot.service").read_text()
    before = " ".join(re.findall(r"^Before=(.*)$", unit, re.MULTILINE)).split()
    assert {"network-pre.target", "systemd-networkd.service", "ssh.service", "getty-pre.target"} <= set(before)
    assert {
        "dnsmasq.service",
        *(f"tributary-{part}.service" for part in ("lan", "router", "converter", "squid")),
    } <= set(before)


def test_the_rules_of_the_lan_are_there_before_dnsmasq_fills_their_sets_and_are_replaced_in_one_piece() -> None:
    unit = (SHIPPED.parent / "tributary-lan.service").read_text()
    assert "dnsmasq.service" in re.findall(r"^Before=(.*)$", unit, re.MULTILINE)
    loaded = re.findall(r"^ExecStart=(.*nft.*)$", unit, re.MULTILINE)
    assert re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE) == loaded
