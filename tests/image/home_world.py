"""A gateway and a home router, booted from an image, as far apart as in life; all else is namespaces of this machine.

                                 +==dsl==+
    device .2 ---- .1 [router]   +==lte==+ .1 internet .1 ---- .2 [gateway]    192.0.2.0/24
      192.168.77.0/24             10.0.N.0/24           .1 ------- .2 server     203.0.113.0/24

The links' providers give the router addresses by DHCP and translate them (experiments/home/network.py). A link's rate
is that of its way down, by HTB. People log in by SSH: at the gateway from one network, at the router from the LAN.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.password import hashed
from experiments.home.network import DEVICE, GATEWAY, ROUTER, SERVER, Network, provide, serving
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from experiments.testbed.topology import Link, Profile, Topology
from tests.image.machine import Medium
from tests.image.standing import Cable, Login, Standing, standing_pc
from tests.netns.world import eventually

PASSWORD = "correct horse battery"
"""Of the router's page."""
NAME, HOME = "server.example.net", "home"
"""A name that the provider of the gateway knows, and by which the router is enrolled."""
CARDS = {"dsl": "ens3", "lte": "ens4"}
"""The router's, by the links that are plugged into them."""
_PROFILE = {"dsl": {"rate": "6mbit", "queue": 50}, "lte": {"rate": "4mbit", "queue": 50}}
"""Little, and little apart: what an emulated processor encrypts beside another one."""
_ADMIN = "192.0.2.1"
_NETWORK = f"""
device:
server:eth0 {SERVER}/24 -- internet:server 203.0.113.1/24
server: ip route add default via 203.0.113.1
server: sysctl -qw net.mptcp.enabled=0
internet: sysctl -qw net.ipv4.ip_forward=1
"""
_WHOLE = 120.0
"""Seconds in which an emulated router takes its links into use."""

_GATEWAY_CARD = """\
hostname = "rented"
ssh_keys = ["{key}"]
admin_networks = ["{admin}/32"]
public_name = "{gateway}"
[network.ens3]
address = "{gateway}/24"
gateway = "{admin}"
dns = ["{admin}"]
"""
_ROUTER_CARD = """\
role = "router"
hostname = "attic"
ssh_keys = ["{key}"]
console_password_hash = "{password}"
[wan.dsl]
interface = "ens3"
[wan.lte]
interface = "ens4"
[lan]
interface = "ens5"
address = "{router}/24"
# The server's address is one for documentation, which counts as private.
private_names = ["example.net"]
"""


_MACS = {name: f"52:54:00:00:54:0{number}" for number, name in enumerate(("gateway", "dsl", "lte", "lan"))}


@dataclass(frozen=True)
class Providers:
    """What the links' providers run: dnsmasq(8) for DHCP on the links, and for names towards the gateway."""

    network: Network
    process: Process

    @staticmethod
    def leases(network: Network, hosts: dict[str, int]) -> None:
        """Have the router's card on each link get this host's address there."""
        lines = (f"{_MACS[link.name]},10.0.{link.number}.{hosts[link.name]}\n" for link in network.links)
        network.internet.write("leases", "".join(lines))

    def lease(self, name: str, host: int) -> None:
        """The router is to have another address on the link ``name`` from the next time on that it asks."""
        self.leases(self.network, {**dict.fromkeys(CARDS, 2), name: host})
        self.process.popen.send_signal(signal.SIGHUP)


@dataclass(frozen=True)
class Home:
    """Both boxes, and what is around them."""

    network: Network
    providers: Providers
    gateway: Login
    router: Login
    box: Standing
    """The router's hardware."""

    @property
    def device(self) -> Node:
        """A device of the LAN."""
        return self.network.device

    def link(self, name: str) -> Link:
        """The link ``name``."""
        return next(link for link in self.network.links if link.name == name)

    def carried(self) -> dict[str, int]:
        """Bytes that each link has brought to the router so far."""
        found = {}
        for link in self.network.links:
            (shown,) = json.loads(self.network.internet.ip("-j", "-s", "link", "show", "dev", link.name))
            found[link.name] = shown["stats64"]["tx"]["bytes"]
        return found

    def status(self) -> dict[str, Any] | None:
        """What the router says of its links; None while it does not."""
        said = self.router.tries("sudo tributary status router")
        return None if said.returncode else dict(json.loads(said.stdout))

    def states(self) -> dict[str, str]:
        """Of each link: up or down."""
        status = self.status()
        return {link["name"]: link["state"] for link in status["wan"]} if status else {}

    def seen(self) -> dict[str, Any]:
        """What the gateway says of the router."""
        (router,) = json.loads(self.gateway.run("sudo tributary routers --json"))["routers"]
        return dict(router)

    def is_whole(self) -> bool:
        """Whether the gateway answers, and subflows go by all links."""
        status = self.status()
        if not status or not status["gateway"]["answers"]:
            return False
        return all(link["state"] == "up" and link["endpoints"] for link in status["wan"])

    def wait_until_whole(self) -> None:
        """Until it is so."""
        eventually(self.is_whole, _WHOLE)


@contextmanager
def standing_home(image: Path, folder: Path) -> Iterator[Home]:
    """All of it, the gateway first: what it prints for the router goes onto the router's card, as a person does it."""
    with ExitStack() as stack:
        network = stack.enter_context(surroundings(folder))
        key = make_key(folder)
        public = key.with_suffix(".pub").read_text().strip()
        internet = network.internet
        (folder / "gateway").mkdir()
        card = _GATEWAY_CARD.format(key=public, admin=_ADMIN, gateway=GATEWAY)
        cables = [Cable(internet, "gateway", _MACS["gateway"])]
        stack.enter_context(standing_pc(Medium.of(image, folder / "gateway", card), cables))
        internet.ip("address", "add", f"{_ADMIN}/24", "dev", "gateway")
        gateway = Login(internet, GATEWAY, key)
        gateway.wait()
        printed = gateway.run(f"sudo tributary enrol {HOME}")

        (folder / "router").mkdir()
        card = _ROUTER_CARD.format(key=public, router=ROUTER, password=hashed(PASSWORD)) + printed
        medium = Medium.of(image, folder / "router", card)
        box, providers = stack.enter_context(standing_router(network, medium))
        stack.enter_context(serving(network.server))
        router = Login(network.device, ROUTER, key)
        router.wait()
        yield Home(network, providers, gateway, router, box)


@contextmanager
def standing_router(network: Network, medium: Medium) -> Iterator[tuple[Standing, Providers]]:
    """A home router with its links, whose providers give it addresses, and a device in its LAN."""
    cables = [Cable(network.internet, link.name, _MACS[link.name]) for link in network.links]
    cables.append(Cable(network.device, "eth0", _MACS["lan"]))
    with standing_pc(medium, cables) as box:
        for link in network.links:
            _shape(network.internet, link)
        network.device.ip("address", "add", f"{DEVICE}/24", "dev", "eth0")
        network.device.ip("route", "add", "default", "via", ROUTER)
        with _providing(network) as providers:
            provide(network)
            yield box, providers


@contextmanager
def surroundings(folder: Path) -> Iterator[Network]:
    """All that is no box of ours: the Internet, a server, a device, and no cable to a box yet."""
    links = Topology.of(Profile.model_validate({"links": _PROFILE})).links
    with standing_nodes("pair-", _NETWORK, folder) as nodes:
        yield Network(nodes, links, folder)


def make_key(folder: Path) -> Path:
    """The SSH key of whoever owns the boxes."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return key


def _shape(internet: Node, link: Link) -> None:
    internet.ip("address", "add", f"{link.gateway4}/24", "dev", link.name)
    for command in (
        f"qdisc add dev {link.name} root handle 1: htb default 1",
        f"class add dev {link.name} parent 1: classid 1:1 htb rate {link.down.rate.amount}bit",
        f"qdisc add dev {link.name} parent 1:1 pfifo limit {link.down.queue}",
    ):
        internet.run("tc", *command.split())


@contextmanager
def _providing(network: Network) -> Iterator[Providers]:
    names = [link.name for link in network.links]
    Providers.leases(network, dict.fromkeys(names, 2))
    command = [
        *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--pid-file=", "--log-facility=-"),
        *("--bind-dynamic", "--interface=gateway", "--no-dhcp-interface=gateway", "--except-interface=lo"),
        *("--no-resolv", "--no-hosts", f"--address=/{NAME}/{SERVER}"),
        *(f"--interface={name}" for name in names),
        *(f"--dhcp-range=10.0.{link.number}.0,static,255.255.255.0,10m" for link in network.links),
        # No names by the links: they are the gateway's to look up.
        *("--dhcp-authoritative", "--dhcp-option=option:dns-server"),
        *(f"--dhcp-hostsfile={network.directory / 'leases'}", f"--dhcp-leasefile={network.directory / 'leased'}"),
    ]
    with network.internet.start("providers", command) as process:
        yield Providers(network, process)
