"""Squid and the native converter, each running with what its operator opened, for the table of forbidden targets."""

import ipaddress
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.testbed.node import Node, Process
from tests.netns import squid_world
from tests.netns.converter_names import Names
from tests.netns.squid_world import SERVER, start_squid
from tests.netns.world import serving

PUBLIC = "203.0.113.1"  # the gateway's own, in both worlds
PORT = 8443

# What no packet can be seen of at an address that nobody has: the server answers for the whole Internet, by a reset.
_NOBODY = """table inet nobody {
    chain forward {
        type filter hook forward priority filter; policy accept;
        meta l4proto tcp reject with tcp reset
    }
}"""


def plain(address: str) -> str:
    """The address as packets have it: an IPv4-mapped one as the IPv4 address."""
    given = ipaddress.ip_address(address)
    return str(getattr(given, "ipv4_mapped", None) or given)


def toml_list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def answer_for_all(server: Node) -> None:
    """Whoever is asked for at ``server`` refuses; that is quicker than nobody's silence."""
    subprocess.run(server.command(["nft", "-f", "-"]), input=_NOBODY, text=True, check=True, timeout=10)


@dataclass
class Victim:
    """A service at the gateway's own public address, and how many reached it."""

    reached: list[str] = field(default_factory=list)


@contextmanager
def victim(gateway: Node) -> Iterator[Victim]:
    """What a client must not reach: it greets, as SSH and mail servers do."""
    found = Victim()
    with gateway.entered():
        listener = socket.create_server((PUBLIC, PORT))

    def greet(connection: socket.socket) -> None:
        found.reached.append(connection.getpeername()[0])
        connection.sendall(b"hello")

    with serving(listener, greet):
        yield found


@dataclass
class Squids:
    """Squid's world, for one running Squid after the other."""

    world: squid_world.World
    names: Names
    _opened: tuple[str, ...] | None = None
    _running: Process | None = None
    _made: int = 0

    def opening(self, networks: tuple[str, ...]) -> squid_world.World:
        """The world with a Squid whose operator opened ``networks``, and which asks the tests' own name server."""
        if self._opened != networks:
            self.stop()
            self._made += 1
            settings = f"""{squid_world.SETTINGS}resolvers = ["{SERVER}"]
connect_ports = [443, {PORT}]
private_targets = {toml_list(networks)}
"""
            self._running = start_squid(self.world.gateway, self.world.directory, settings, f"opened{self._made}")
            self._opened = networks
        return self.world

    def stop(self) -> None:
        """End the Squid that runs, if one does."""
        if self._running is not None:
            self._running.stop()


@contextmanager
def squids() -> Iterator[Squids]:
    """Squid's namespaces, without a Squid yet."""
    with squid_world.world() as world:
        world.squid.stop()
        answer_for_all(world.server)
        names = Names(world.server, SERVER)
        try:
            standing = Squids(world, names)
            yield standing
            standing.stop()
        finally:
            names.close()
