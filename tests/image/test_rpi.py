"""The Raspberry Pi's image: as a file, and its root on QEMU's arm64 machine.

QEMU has no firmware of the Raspberry Pi: what reads config.txt on a board is looked at as files alone.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from image.check.examination import examine
from image.check.on_rpi import MODELS
from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.machine import GROWTH, Medium, boot_virt, section
from tests.netns.world import needs

BOARD = "rpi"
ALL = ("system", "features", "network", "downloads", "doctor")

qemu = needs("qemu-system-aarch64")


@pytest.fixture(scope="module")
def virt(medium: Medium) -> str:
    return boot_virt(medium, *ALL, seconds=3000)


def test_as_a_file_it_has_what_every_model_needs(build: Build, tmp_path: Path) -> None:
    plain = tmp_path / "plain.img"
    packed = build(BOARD, Role.GATEWAY)
    subprocess.run(["zstd", "-q", "-d", "--sparse", packed, "-o", plain], check=True)
    found = examine(plain, "rpi", "gateway")
    assert [str(finding) for finding in found if not finding.fine] == []
    for model in MODELS:
        assert any(f"Raspberry Pi {model}:" in finding.what for finding in found)


@qemu
def test_its_root_boots_and_nothing_fails(virt: str) -> None:
    found = section(virt, "system")
    assert (found["state"], found["failed"], found["hostname"]) == ("running", [], "attic")
    assert found["data_bytes"] > GROWTH


@qemu
def test_a_client_downloads_over_two_subflows_and_one_is_held(virt: str) -> None:
    found: dict[str, Any] = section(virt, "downloads")
    for name in ("squid", "converter", "held"):
        assert found[name]["whole"], name
        assert min(found[name]["received"].values()) > 0.1 * 1e6
    assert {"htb", "fq_codel"} <= set(found["held"]["qdiscs"])


@qemu
def test_the_doctor_finds_nothing_wrong(virt: str) -> None:
    found = section(virt, "doctor")
    assert [each for each in found["findings"] if each["state"] == "wrong"] == []
