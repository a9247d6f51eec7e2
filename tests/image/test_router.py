"""A home router's images: two links and a LAN, set up from the boot partition."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.machine import HOME, PC_CARDS, VIRT_CARDS, Medium, boot_pc, boot_virt, section

SETTINGS = """\
gateway = "203.0.113.5"

[wan.dsl]
interface = "{dsl}"

[wan.lte]
interface = "{lte}"
priority = 200

[lan]
interface = "{lan}"
address = "192.168.77.1/24"

[network.{dsl}]
address = "192.168.76.15/24"
gateway = "192.168.76.2"

[network.{lte}]
address = "192.168.86.15/24"
gateway = "192.168.86.2"
"""


@dataclass(frozen=True)
class Machine:
    """What a board's image is booted on, and the names of its links' cards and of the LAN's."""

    board: str
    command: str
    boot: Callable[..., str]
    cards: tuple[str, str, str]
    seconds: int

    def __str__(self) -> str:
        return self.board


MACHINES = (
    Machine("x86", "qemu-system-x86_64", boot_pc, PC_CARDS, 900),
    Machine("rpi", "qemu-system-aarch64", boot_virt, VIRT_CARDS, 1800),
)


@pytest.fixture(scope="module", params=MACHINES, ids=str)
def machine(request: pytest.FixtureRequest) -> Machine:
    given: Machine = request.param
    if shutil.which(given.command) is None:
        pytest.skip(f"no {given.command}")
    return given


@pytest.fixture(scope="module")
def console(machine: Machine, build: Build, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("router", numbered=True)
    dsl, lte, lan = machine.cards
    medium = Medium.of(build(machine.board, Role.ROUTER), folder, SETTINGS.format(dsl=dsl, lte=lte, lan=lan))
    return machine.boot(medium, "system", "links", network=HOME, seconds=machine.seconds)


@pytest.fixture(scope="module")
def links(console: str) -> dict[str, Any]:
    return section(console, "links")


def test_the_first_boot_makes_a_home_router_of_it(machine: Machine, console: str) -> None:
    found = section(console, "system")
    assert (found["state"], found["failed"], found["role"]) == ("running", [], "router")
    assert found["as_an_upgrade"] == "good"
    assert f"Plug devices in at {machine.cards[-1]}" in found["applied"]
    running = {name for name, state in found["active"].items() if state == "active"}
    parts = ("router", "converter", "console", "lan", "firewall", "firstboot")
    assert {f"tributary-{part}.service" for part in parts} <= running
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
