"""The x86 image of a gateway, booted by UEFI."""

from pathlib import Path

import pytest

from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.machine import OVMF, Medium, boot_pc, section
from tests.netns.world import needs

pytestmark = [
    needs("qemu-system-x86_64"),
    pytest.mark.skipif(not OVMF[0].exists(), reason="no OVMF (package ovmf)"),
]


def test_it_boots_by_uefi_as_well(build: Build, tmp_path: Path) -> None:
    medium = Medium.of(build("x86", Role.GATEWAY), tmp_path, 'hostname = "attic"\n')
    found = section(boot_pc(medium, "system", uefi=True, seconds=900), "system")
    assert found["firmware"] == "UEFI"
    assert (found["state"], found["failed"], found["hostname"]) == ("running", [], "attic")
