"""What the tests of a home router's LAN share: a box whose files and rules are those of its card."""

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.node import Node, Process
from tests.netns.connections import TCP
from tests.netns.world import Child, connected, in_namespace, listener_at, ready, serving
from tests.unit.image import miniature
from tests.unit.image.firstboot.cards import HOME
from tests.unit.image.firstboot.systems import FIREWALL, SHIPPED, texts

UNIT = SHIPPED.parent / "tributary-lan.service"
DEVICE, BOX = "192.168.77.9", "192.168.77.1"
LAN = f"""
device:eth0 {DEVICE}/24 -- box:end0 {BOX}/24
device: ip route add default via {BOX}
"""
"""The network's part behind the box."""
_TOLD = {errno.ECONNREFUSED: "refused", errno.ENETUNREACH: "unreachable"}
IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75  # linux/in.h, linux/in6.h

SITE = miniature.files("x86")["/etc/nftables.d/tributary-site.nft"]


@dataclass
class Home:
    """A device, its home router, and what the router's links lead to. ``directory`` has the files of the card."""

    device: Node
    box: Node
    internet: Node
    directory: Path

    def write(self, card: str = HOME) -> None:
        """The files of ``card``, and those of an image for gateways, which tracks no TCP."""
        files = {Path(path).name: text for path, text in texts(card).items()}
        for name in ("lan.nft", "tributary-site-card.nft", "tributary-lan.conf", "converter.toml", "router.toml"):
            (self.directory / name).write_text(files[name])
        (self.directory / "tributary-site.nft").write_text(SITE)
        (self.directory / FIREWALL.name).write_text(FIREWALL.read_text())

    def close(self) -> None:
        """Load the firewall, as its unit does."""
        self.box.run("nft", "--includepath", str(self.directory), "--file", str(self.directory / FIREWALL.name))

    @contextmanager
    def routing(self) -> Iterator[None]:
        """With its firewall loaded and its unit started, for the length of a block."""
        self.close()
        assert set(self.unit("ExecStart")) == {0}
        try:
            yield
        finally:
            self.unit("ExecStop")
            self.box.run("nft", "delete", "table", "inet", "tributary-firewall")

    def daemon(self) -> AbstractContextManager[Child]:
        """The router's own, by the settings of its card."""
        words = ("run", str(self.directory / "router.toml"), "--state-directory", str(self.directory / "state"))
        return ready(*in_namespace(self.box.namespace, sys.executable, "-m", "router", *words))

    def unit(self, key: str) -> list[int]:
        """Run the commands of the unit's ``key``, as 'ExecStart'; the status of those that may not fail."""
        return run_unit(self.box, key, self.directory)

    def traces(self) -> tuple[str, ...]:
        """What the unit changes in the kernel."""
        box = self.box
        return (
            box.run("nft", "list", "tables"),
            box.ip("rule", "show"),
            box.ip("route", "show", "table", "all", "type", "local", "table", "8300"),
            box.run("sysctl", "-n", "net.ipv4.ip_forward"),
            box.ip("-6", "rule", "show"),
            box.ip("-6", "route", "show", "table", "all", "type", "local", "table", "8300"),
            box.run("sysctl", "-n", "net.ipv6.conf.all.forwarding"),
        )


def run_unit(box: Node, key: str, files: Path) -> list[int]:
    """Run the commands of tributary-lan.service on the files of a card; the status of those that may not fail."""
    commands = [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith(f"{key}=")]
    ended = []
    for command in commands:
        words = command.removeprefix("-").replace("/etc/tributary", str(files)).split()
        done = subprocess.run(box.command(words), capture_output=True, check=False)
        if not command.startswith("-"):
            ended.append(done.returncode)
    return ended


def dnsmasq(node: Node, directory: Path) -> Process:
    """Start it with the card's file in ``directory``; a context manager."""
    words = ("--keep-in-foreground", "--pid-file=", f"--dhcp-leasefile={directory}/leases", "--log-facility=-")
    return node.start("dnsmasq", ["dnsmasq", *words, f"--conf-file={directory}/tributary-lan.conf"])


def access_links(names: Sequence[str], far: str) -> str:
    """Cables from the box to ``far``, with default routes as a DHCP client sets them: 10.7.1.2 by the first link."""
    return "\n".join(
        f"box:{name} 10.7.{number}.2/24 -- {far}:{name} 10.7.{number}.1/24\n"
        f"box: ip route add default via 10.7.{number}.1 metric {1023 + number}"
        for number, name in enumerate(names, start=1)
    )


def listens(node: Node, port: int, *, transparent: bool = False, version: int = 4) -> socket.socket:
    """A TCP socket that listens on every address of an IP version; of version 6 also on those of IPv4."""
    listener = listener_at(node, port, "0.0.0.0" if version == 4 else "::", TCP)
    if transparent:
        of_version = (socket.SOL_IP, IP_TRANSPARENT) if version == 4 else (socket.IPPROTO_IPV6, IPV6_TRANSPARENT)
        listener.setsockopt(*of_version, 1)
    return listener


@contextmanager
def listening(node: Node, port: int, *, transparent: bool = False, version: int = 4) -> Iterator[None]:
    """A TCP service on every address of an IP version that says who came, and to which address."""
    listener = listens(node, port, transparent=transparent, version=version)

    def answer(connection: socket.socket) -> None:
        own, peer = connection.getsockname()[0], connection.getpeername()[0]
        connection.sendall(f"{node.namespace.split('-')[1]} {peer} {own}".encode())

    with serving(listener, answer):
        yield


@contextmanager
def both_ends(
    device: Node, server: Node, host: str, port: int, source: str = ""
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection of the device's, from one of its addresses if that is named, and the server's end of it."""
    with listens(server, port, version=6 if ":" in host else 4) as listener:
        listener.settimeout(5)
        with connected(device, host, port, (source, 0), 5, protocol=TCP) as client, listener.accept()[0] as there:
            there.settimeout(5)
            yield client, there


def goes_on(client: socket.socket, there: socket.socket) -> bool:
    """Whether a connection carries what both ends say."""
    client.sendall(b"hello")
    there.sendall(there.recv(10))
    return client.recv(10) == b"hello"


def heard(node: Node, host: str, port: int, source: str = "") -> str:
    """What the service says, 'silence' if nothing comes, 'refused' or 'unreachable' if that is what comes."""
    try:
        with connected(node, host, port, (source, 0), 1, protocol=TCP) as client:
            return client.recv(100).decode()
    except TimeoutError:
        return "silence"
    except OSError as error:
        if error.errno not in _TOLD:
            raise
        return _TOLD[error.errno]
