"""A stranger on the Internet reaches a device of a home's LAN: gateway, links' daemon, rules and tunnels are real.

    device 192.168.77.9 --- [box] dsl 10.7.1.2 --- 10.7.1.1 [gateway] 203.0.113.1 --- 203.0.113.2 [stranger]
                                  lte 10.7.2.2 --- 10.7.2.1

The stranger has no route to the home, and the device's way out is the box.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from experiments.home.gateway import FIREWALL, Gateway
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from gateway.rules import without_seen
from image.firstboot.lan import PORT
from tests.netns.home_world import BOX, DEVICE, LAN, Home, access_links, heard, listening
from tests.netns.test_gateway import SITE
from tests.netns.world import datagrams_at, eventually, heard_and_answered, needs
from tributary.settings.errors import CommandError

GATEWAY, STRANGER, INSIDE = "203.0.113.1", "203.0.113.2", "10.84.0.1"
TUNNEL, INTERFACE = f"f{os.getpid()}-", f"i{os.getpid()}"
"""Interfaces of WireGuard meet in one folder of all namespaces."""

PORTS = ("tcp/2222", "tcp/27015", "udp/27015-27020")
CARD = f"""\
[lan]
interface = "end0"
address = "{BOX}/24"
[wan.dsl]
interface = "dsl"
[wan.lte]
interface = "lte"
[tunnels]
prefix = "{TUNNEL}"
[[forward]]
ports = ["tcp/27015", "udp/27015-27020"]
device = "{DEVICE}"
[[forward]]
ports = ["tcp/2222"]
device = "{DEVICE}"
to_port = 22
"""

pytestmark = needs("dnsmasq", "ip", "nft", "sysctl", "wg")


@dataclass
class Served(Home):
    """``internet`` is the stranger."""

    gateway: Node

    def at_gateway(self, *words: str) -> str:
        """What the gateway's command prints."""
        return Gateway(self.gateway, INTERFACE).command(*words)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("forwarding")
    with ExitStack() as made:
        cables = f"gateway:core {GATEWAY}/24 -- stranger:eth0 {STRANGER}/24\n"
        network = LAN + access_links(("dsl", "lte"), "gateway") + "\n" + cables
        nodes = made.enter_context(standing_nodes("fwd-", network, folder))
        home = Served(nodes["device"], nodes["box"], nodes["stranger"], folder, nodes["gateway"])
        made.enter_context(listening(home.gateway, 5124))
        _at_the_gateway(home, made)
        _at_the_box(home, made)
        eventually(lambda: f"dev {TUNNEL}0" in home.box.ip("route", "show", "default").splitlines()[0])
        yield home


def _at_the_gateway(home: Served, made: ExitStack) -> None:
    # wireguard-go 0.0.20231211 answers from its route's address, not from the one that was asked.
    for number, link in enumerate(("dsl", "lte"), start=1):
        home.gateway.ip("route", "replace", f"10.7.{number}.0/24", "dev", link, "src", GATEWAY)
    (home.directory / "gateway.toml").write_text(f'name = "{GATEWAY}"\ninterface = "{INTERFACE}"\n')
    made.callback(home.at_gateway, "down")
    home.at_gateway("up")
    site = home.directory / "site"
    site.mkdir()
    (site / "tributary-site.nft").write_text(SITE)
    home.gateway.run("nft", "--includepath", str(site), "--file", str(FIREWALL))


def _at_the_box(home: Served, made: ExitStack) -> None:
    home.write(CARD + home.at_gateway("enrol", "berlin"))
    (home.directory / "router.toml").chmod(0o600)
    home.at_gateway("forward", "berlin", *PORTS)
    made.enter_context(home.routing())
    made.enter_context(home.daemon())


Asked = tuple[socket.socket, socket.socket]
"""A stranger's socket that is connected to the gateway's port, and a datagram service of the device."""


@pytest.fixture
def asked(home: Served) -> Iterator[Asked]:
    there = (GATEWAY, 27018)
    with datagrams_at(home.device, at=("0.0.0.0", 27018)) as service, datagrams_at(home.internet, to=there) as stranger:
        yield stranger, service


@pytest.mark.smoke
def test_a_device_is_reached_by_tcp_and_udp_and_sees_who_asks(home: Served, asked: Asked) -> None:
    # The box's converter, which takes all that devices begin, gets nothing of what they answer.
    with listening(home.box, PORT, transparent=True), listening(home.device, 27015):
        assert heard(home.internet, GATEWAY, 27015) == f"device {STRANGER} {DEVICE}"
    with listening(home.device, 22):
        assert heard(home.internet, GATEWAY, 2222) == f"device {STRANGER} {DEVICE}"
    assert heard_and_answered(*asked) == STRANGER


def test_a_device_that_asks_at_the_gateways_public_address_reaches_a_device(home: Served, asked: Asked) -> None:
    """Here it reaches itself. What it sees is the box, by which the answer has to come back."""
    with listening(home.box, PORT, transparent=True):
        with listening(home.device, 27015), listening(home.device, 22):
            assert heard(home.device, GATEWAY, 27015) == f"device {BOX} {DEVICE}"
            assert heard(home.device, GATEWAY, 2222) == f"device {BOX} {DEVICE}"
        assert heard(home.device, GATEWAY, 27019).startswith("box "), "other ports go to the converter as before"
    with datagrams_at(home.device, to=(GATEWAY, 27018)) as neighbour:
        assert heard_and_answered(neighbour, asked[1]) == BOX


def test_answers_leave_by_the_tunnel_also_while_something_else_is_the_way_out(home: Served, asked: Asked) -> None:
    assert heard_and_answered(*asked) == STRANGER
    before = home.box.run("ip", "-s", "-json", "link", "show", "dev", f"{TUNNEL}0")
    home.box.ip("rule", "add", "priority", "8395", "to", STRANGER, "blackhole")
    try:
        assert heard_and_answered(*asked) == STRANGER
    finally:
        home.box.ip("rule", "delete", "priority", "8395")
    assert home.box.run("ip", "-s", "-json", "link", "show", "dev", f"{TUNNEL}0") != before


def test_a_port_that_is_not_forwarded_gets_no_answer(home: Served) -> None:
    # 27021 is led to nobody, and 27019 to no port of a device by TCP.
    with listening(home.device, 27021), listening(home.device, 27019):
        for port in (27019, 27021):
            assert heard(home.internet, GATEWAY, port) == "silence"


def test_a_port_that_is_taken_away_gets_no_answer_at_once_also_where_one_is_in_use(home: Served, asked: Asked) -> None:
    assert heard_and_answered(*asked) == STRANGER
    home.at_gateway("forward", "berlin", "--remove", "udp/27015-27020")
    try:
        assert heard_and_answered(*asked) is None
        with listening(home.device, 22):
            assert heard(home.internet, GATEWAY, 2222) == f"device {STRANGER} {DEVICE}"
    finally:
        home.at_gateway("forward", "berlin", "udp/27015-27020")


REFUSED = {
    ("berlin", "tcp/20-30"): "the gateway itself needs tcp/22",
    ("berlin", "tcp/5124"): "a program of this machine listens at 0.0.0.0:5124",
    ("berlin", "tcp/27000-27100"): "tcp/27015 cannot be forwarded to berlin: tcp/27000-27100 is, to berlin",
    ("paris", "tcp/80"): "paris: no such router: accepted: berlin",
    ("berlin", "--remove", "tcp/80"): "berlin: tcp/80 is not forwarded: accepted: tcp/2222, tcp/27015, udp/27015-27020",
}
WOULD = {
    ("berlin", "tcp/8443"): "# tcp/8443 would be forwarded to berlin\n",
    ("berlin", "--remove", "tcp/2222"): "# tcp/2222 would no longer be forwarded to berlin\n",
}


def test_what_is_refused_and_what_is_only_tried_changes_nothing(home: Served) -> None:
    before = without_seen(home.gateway.run("nft", "--stateless", "list", "ruleset"))
    for words, said in REFUSED.items():
        with pytest.raises(CommandError, match=said):
            home.at_gateway("forward", *words)
    for words, told in WOULD.items():
        assert home.at_gateway("forward", *words, "--dry-run") == told
    assert without_seen(home.gateway.run("nft", "--stateless", "list", "ruleset")) == before
    (berlin,) = json.loads(home.at_gateway("routers", "--json"))["routers"]
    assert berlin["forwards"] == list(PORTS)


def test_who_is_revoked_takes_the_ports_along(home: Served) -> None:
    file = home.directory / "gateway/routers/berlin.toml"
    kept = file.read_text()
    home.at_gateway("revoke", "berlin")
    try:
        assert "27015" not in home.gateway.run("nft", "list", "table", "inet", "tributary-gateway")
    finally:
        file.write_text(kept)
        (home.directory / "gateway/revoked.json").unlink()
        home.at_gateway("sync")
