"""Whom an enrolled home router asks for names: the gateway, through its tunnel, and without one whom its card says.

device 192.168.77.9 --- 192.168.77.1 [box], where 10.84.0.1 stands for the gateway, and 127.0.0.53 for systemd-resolved
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from tests.netns.converter_names import Names, looked_up
from tests.netns.home_world import BOX, LAN, Home, dnsmasq
from tests.netns.world import eventually, needs
from tests.unit.image.firstboot.cards import ENROLMENT, FORWARD, LINKS

GATEWAY, HERE = "10.84.0.1", "127.0.0.53"
NAME = "server.example.net"

pytestmark = needs("dnsmasq")


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    with standing_nodes("fbn-", f"{LAN}\nbox: ip address add {GATEWAY}/32 dev lo", tmp_path) as nodes:
        home = Home(nodes["device"], nodes["box"], nodes["device"], tmp_path)
        # Addresses for documentation count as private.
        home.write(f'{LINKS}private_names = ["example.net"]\n{request.param}{ENROLMENT}')
        with dnsmasq(home.box, tmp_path):
            yield home


def asked(home: Home, name: str = NAME) -> str | None:
    """The address that a device is told, 'none' if it is told that there is none, None if nobody answers."""
    told = looked_up(home.device, name, BOX)
    return told if told is None else next(iter(told), "none")


@pytest.mark.parametrize(
    ("home", "told"),
    [("", "none"), ('dns = "links"\n', "203.0.113.9"), ('dns = ["9.9.9.9#dns.quad9.net"]\n', "203.0.113.9")],
    ids=["nobody", "links", "servers"],
    indirect=["home"],
)
def test_names_are_asked_of_the_gateway_and_while_no_tunnel_leads_there_of_whom_the_card_says(
    home: Home, told: str
) -> None:
    gateway, links = Names(home.box, GATEWAY), Names(home.box, HERE)
    gateway.records[NAME], links.records[NAME] = ["203.0.113.1"], ["203.0.113.9"]
    eventually(lambda: asked(home) == "203.0.113.1")
    assert not links.asked
    gateway.close()
    home.box.ip("address", "delete", f"{GATEWAY}/32", "dev", "lo")
    home.box.ip("route", "add", "unreachable", f"{GATEWAY}/32")
    begun = time.monotonic()
    assert asked(home) == told
    assert time.monotonic() - begun < 1
    assert bool(links.asked) == (told != "none")
    links.close()


@pytest.mark.parametrize("home", [""], indirect=True)
def test_a_name_from_outside_has_no_private_address_unless_the_card_names_its_domain(home: Home) -> None:
    gateway = Names(home.box, GATEWAY)
    gateway.records |= {
        "rebinding.example.com": ["192.168.77.20"],
        "modem.example.com": ["10.0.0.1"],
        "here.example.com": ["127.0.0.1"],
        "server.example.com": ["9.9.9.9"],
        NAME: ["192.168.77.20"],
    }
    assert eventually(lambda: asked(home, "server.example.com")) == "9.9.9.9"
    for name in ("rebinding", "modem", "here"):
        assert asked(home, f"{name}.example.com") == "none"
    assert asked(home) == "192.168.77.20"
    assert asked(home, "tributary.lan") == BOX
    gateway.close()


@needs("nft")
@pytest.mark.parametrize("home", [FORWARD], indirect=True)
def test_the_gateways_address_is_among_those_whose_ports_lead_to_devices_when_a_device_has_asked_for_its_name(
    home: Home,
) -> None:
    home.box.run("nft", "--file", f"{home.directory}/lan.nft")
    gateway = Names(home.box, GATEWAY)
    gateway.records["gateway.example.net"] = ["203.0.113.1"]
    assert eventually(lambda: asked(home, "gateway.example.net")) == "203.0.113.1"
    assert "203.0.113.1" in home.box.run("nft", "list", "set", "inet", "tributary-lan", "gateways")
    gateway.close()
