"""The x86 image of a home router: two links and a LAN, set up from the boot partition."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.machine import HOME, Medium, boot_pc, section

pytestmark = pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no qemu-system-x86_64")

SETTINGS = """\
gateway = "203.0.113.5"

[wan.dsl]
interface = "ens3"

[wan.lte]
interface = "ens4"
priority = 200

[lan]
interface = "ens5"
address = "192.168.77.1/24"

[network.ens3]
address = "192.168.76.15/24"
gateway = "192.168.76.2"

[network.ens4]
address = "192.168.86.15/24"
gateway = "192.168.86.2"
"""


@pytest.fixture(scope="module")
def console(build: Build, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("cpe", numbered=True)
    medium = Medium.of(build("x86", Role.CPE), folder, SETTINGS)
    return boot_pc(medium, "system", "links", network=HOME, seconds=900)


@pytest.fixture(scope="module")
def links(console: str) -> dict[str, Any]:
    return section(console, "links")


def test_the_first_boot_makes_a_home_router_of_it(console: str) -> None:
    found = section(console, "system")
    assert (found["state"], found["failed"], found["role"]) == ("running", [], "cpe")
    assert "Plug devices in at ens5" in found["applied"]
    running = {name for name, state in found["active"].items() if state == "active"}
    assert {f"tributary-{part}.service" for part in ("cpe", "converter", "lan", "firewall", "firstboot")} <= running
    assert "tributary-squid.service" not in found["active"]
    assert "ssh.service" not in running  # nobody has a key


def test_both_links_are_kept(links: dict[str, Any]) -> None:
    for address in ("192.168.76.15", "192.168.86.15"):
        assert address in links["endpoints"]
        assert f"from {address} lookup 84" in links["rules"]


def test_the_lan_is_served(links: dict[str, Any]) -> None:
    assert "192.168.77.1/24" in links["lan"]
    assert links["active"] == {"dnsmasq.service": "active", "tributary-lan.service": "active"}
    assert links["forwards"] == "1"
    assert "192.168.77.1:53" in links["names"]


def test_the_doctor_finds_nothing_wrong(links: dict[str, Any]) -> None:
    assert [each for each in links["doctor"] if each["state"] == "wrong"] == []
