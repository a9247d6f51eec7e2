"""A gateway that lets home routers in by keys, a server behind it, and two houses with as many tunnels as a test wants.

hgw-house 192.0.2.2 --- 192.0.2.1       hgw-gate 203.0.113.1 --- 203.0.113.2, 10.99.0.2 hgw-server
hgw-flat 198.51.100.2 --- 198.51.100.1
tunnels: 10.84.0.18 and others in the houses --- 10.84.0.1 in hgw-gate
"""

import json
import os
import shutil
import socket
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from experiments.home.gateway import gateway_command
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.converter_names import Names
from tests.netns.world import connected, eventually, in_namespace, listener_at, needs, on, run, serving
from tributary.kernel import wireguard
from tributary.settings.files import check
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Enrolment
from tributary.wireguard.interface import Interface, Peer

needs_tools = needs("wg", "nft")

OUTSIDE, INSIDE, SERVER, PRIVATE = "192.0.2.1", "10.84.0.1", "203.0.113.2", "10.99.0.2"
CONVERTER = 5124
# PRIVATE is behind the gateway, where nobody of the tunnels shall come.
_NETWORK = f"""
house:wan 192.0.2.2/24 -- gate:wan {OUTSIDE}/24
flat:wan2 198.51.100.2/24 -- gate:wan2 198.51.100.1/24
server:core {SERVER}/24 {PRIVATE}/32 -- gate:core 203.0.113.1/24
flat: ip route add {OUTSIDE}/32 via 198.51.100.1
gate: ip route add {PRIVATE}/32 via {SERVER}
"""

_numbers = count()


@dataclass
class House:
    """Its tunnels, each with a name that is free on the whole machine: wireguard-go's sockets have no namespace."""

    node: Node
    made: dict[str, Interface] = field(default_factory=dict)

    def tunnel(self, enrolment: Enrolment, place: int = 1, secret: str | None = None) -> str:
        """A tunnel to the gateway that everything behind it is reached by; returns its address inside.

        The one for everything else is used for IPv6 as well, if the gateway has any.
        """
        name = f"t{os.getpid()}-{next(_numbers)}"
        gateway = Peer(
            enrolment.public_key, (IPv4Network("0.0.0.0/0"), IPv6Network("::/0")), str(enrolment.gateway), keepalive=1
        )
        interface = Interface(keys.private_key(secret or enrolment.secret, place), (gateway,))
        address = str(addresses.tunnel_address(enrolment.addresses, place))
        with self.node.entered():
            wireguard.create(name)
            self.made[name] = interface
            wireguard.configure(name, interface)
            wireguard.set_addresses(name, [f"{address}/32"], 1420)
        if enrolment.prefix and place == addresses.DEFAULT_SLOT:
            self.node.ip("address", "add", f"{addresses.default_tunnel_address(enrolment.prefix)}/128", "dev", name)
            self.node.ip("-6", "route", "add", "default", "dev", name)
        # By its address it is chosen, as a router's rules do it.
        self.node.ip("route", "add", "default", "dev", name, "table", str(100 + len(self.made)))
        self.node.ip("rule", "add", "from", address, "table", str(100 + len(self.made)))
        return address

    def forget(self) -> None:
        """Begin anew with the gateway: by itself a tunnel waits for 15 s without an answer before it does."""
        with self.node.entered():
            for name, interface in self.made.items():
                wireguard.configure(name, replace(interface, peers=()))
                wireguard.configure(name, interface)

    def remove_tunnels(self) -> None:
        with self.node.entered():
            for name in self.made:
                wireguard.remove(name)

    def reaches(self, source: str, target: str, port: int, seconds: float = 1.0) -> bool:
        with suppress(OSError):
            self.connect(source, target, port, seconds).close()
            return True
        return False

    def connect(self, source: str, target: str, port: int, seconds: float = 1.0, protocol: int = 0) -> socket.socket:
        return connected(self.node, target, port, (source, 0), seconds, protocol=protocol)

    def pings(self, source: str, target: str, seconds: int = 1) -> bool:
        said = on(self.node.namespace, f"ping -n -q -c 1 -W {seconds} -I {source} {target}", check=False)
        return " 1 received" in said


@dataclass
class World:
    folder: Path
    gate: Node
    house: House
    flat: House
    server: Node
    interface: str
    peers: list[tuple[str, int]] = field(default_factory=list)
    """Who connected to the streams, as they saw it."""

    def write(self, **settings: object) -> None:
        """The gateway's settings, beside those that every test has."""
        document = {"name": OUTSIDE, "interface": self.interface, **settings}
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in document.items())
        (self.folder / "gateway.toml").write_text("".join(lines))

    def gateway(self, *words: str) -> str:
        return run(*self.command(*words))

    def notes(self, *words: str) -> str:
        """What a command says on standard error, which succeeds."""
        return run("sh", "-c", 'exec "$@" 2>&1 >/dev/null', "sh", *self.command(*words))

    def command(self, *words: str) -> tuple[str, ...]:
        where = ("--settings", str(self.folder / "gateway.toml"), "--state-directory", str(self.state))
        return in_namespace(self.gate.namespace, *gateway_command(*words), *where)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def enrol(self, name: str, command: str = "enrol", *words: str) -> Enrolment:
        table = tomllib.loads(self.gateway(command, name, *words))
        return check(table["enrolment"][0], Enrolment, name)

    def enter(self, name: str, place: int = 1, house: House | None = None) -> str:
        """Enrol a router, and wait until its tunnel is up, in the first house if no other is given; its address."""
        at = house or self.house
        address = at.tunnel(self.enrol(name), place)
        eventually(lambda: at.pings(address, INSIDE))
        return address

    def list(self) -> dict[str, Any]:
        return {router["name"]: router for router in json.loads(self.gateway("routers", "--json"))["routers"]}

    def tables(self) -> str:
        return self.gate.run("nft", "list", "tables")

    def forwards(self) -> bool:
        return self.gate.run("cat", "/proc/sys/net/ipv4/ip_forward") == "1\n"


@contextmanager
def streams(world: World, node: Node, address: str, port: int, protocol: int = 0) -> Iterator[None]:
    """A server at ``node`` that sends zeros to whoever connects, as fast as they are taken."""

    def send(client: socket.socket) -> None:
        world.peers.append(client.getpeername())
        while True:
            client.sendall(bytes(65536))

    with serving(listener_at(node, port, address, protocol), send):
        yield


@contextmanager
def names(world: World) -> Iterator[Names]:
    """The gateway's service for names, and the name server that it asks."""
    known = Names(world.gate, "203.0.113.1")
    # What ip-netns(8) has the namespace see as /etc/resolv.conf.
    folder = Path("/etc/netns") / world.gate.namespace
    folder.mkdir(parents=True)
    (folder / "resolv.conf").write_text("nameserver 203.0.113.1\n")
    try:
        words = [sys.executable, "-m", "gateway", "dns", "--settings", str(world.folder / "gateway.toml")]
        with world.gate.start("dns", words):
            yield known
    finally:
        known.close()
        shutil.rmtree(folder)


@contextmanager
def world(folder: Path, **settings: object) -> Iterator[World]:
    """The network, with the gateway's tunnels up; at the end they are down, and nothing is left."""
    with ExitStack() as made:
        nodes = made.enter_context(standing_nodes("hgw-", _NETWORK, folder))
        house, flat, interface = House(nodes["house"]), House(nodes["flat"]), f"g{os.getpid()}-{next(_numbers)}"
        world = World(folder, nodes["gate"], house, flat, nodes["server"], interface)
        world.write(**settings)
        made.callback(world.house.remove_tunnels)
        made.callback(world.flat.remove_tunnels)
        made.callback(world.gateway, "down")
        world.gateway("up")
        yield world


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as built:
        yield built
