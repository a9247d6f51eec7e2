"""What a home router does for its LAN besides the converter: its rules and the firewall, loaded as their units do it.

    device 192.168.77.9 --- end0 192.168.77.1 [box] wlan0 10.7.0.2 --- 10.7.0.1 [internet] 203.0.113.2

The Internet has no route to the LAN: what it answers went through the box's own address.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.testbed.node import Node
from image.firstboot.actions import WriteFile
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role
from tests.netns.squid_world import inside
from tests.unit.image.firstboot.systems import FIREWALL, SHIPPED, facts
from tests.unit.image.firstboot.test_reading import CPE

UNIT = SHIPPED.parent / "tributary-lan.service"
RULES = "/etc/tributary/lan.nft"
SERVER, MODEM, BOX, BOX_OUTSIDE = "203.0.113.2", "10.7.0.1", "192.168.77.1", "10.7.0.2"
IP_TRANSPARENT = 19  # linux/in.h

SITE = """
add element inet tributary-firewall admin_networks4 { 10.0.0.0/8, 192.168.0.0/16 }
add element inet tributary-firewall admin_ports { 22 }
add rule inet tributary-firewall untracked_in meta l4proto tcp notrack
add rule inet tributary-firewall untracked_out meta l4proto tcp notrack
"""

missing = [tool for tool in ("ip", "nft", "sysctl") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}"),
]


@dataclass
class Home:
    device: Node
    box: Node
    internet: Node
    directory: Path

    def write(self, card: str = CPE) -> None:
        """The files of ``card``, and those of an image for gateways, which tracks no TCP."""
        actions = plan(read(card.encode(), Role.CPE), facts(Role.CPE))
        texts = {Path(each.path).name: each.text for each in actions if isinstance(each, WriteFile)}
        for name in ("lan.nft", "tributary-site-card.nft"):
            (self.directory / name).write_text(texts[name])
        (self.directory / "tributary-site.nft").write_text(SITE)
        (self.directory / FIREWALL.name).write_text(FIREWALL.read_text())

    def close(self) -> None:
        """Load the firewall, as its unit does."""
        self.box.run("nft", "--includepath", str(self.directory), "--file", str(self.directory / FIREWALL.name))

    def unit(self, key: str) -> list[int]:
        """Run the commands of the unit's ``key`` (ExecStart, ExecStop); the status of those that may not fail."""
        commands = [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith(f"{key}=")]
        ended = []
        for command in commands:
            words = command.removeprefix("-").replace(RULES, str(self.directory / "lan.nft")).split()
            done = subprocess.run(self.box.command(words), capture_output=True, check=False)
            if not command.startswith("-"):
                ended.append(done.returncode)
        return ended

    def traces(self) -> tuple[str, ...]:
        box = self.box
        return (
            box.run("nft", "list", "tables"),
            box.ip("rule", "show"),
            box.ip("route", "show", "table", "all", "type", "local", "table", "8300"),
            box.run("sysctl", "-n", "net.ipv4.ip_forward"),
        )


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with ExitStack() as made:
        directory = Path(made.enter_context(tempfile.TemporaryDirectory()))
        nodes = [Node(f"fbt-{name}-{os.getpid()}", directory) for name in ("device", "box", "internet")]
        for node in nodes:
            node.create()
            made.callback(node.delete)
        device, box, internet = nodes
        _cable(device, "eth0", "192.168.77.9/24", box, "end0", f"{BOX}/24")
        _cable(box, "wlan0", f"{BOX_OUTSIDE}/24", internet, "outer", f"{MODEM}/24")
        device.ip("route", "add", "default", "via", BOX)
        box.ip("route", "add", "default", "via", MODEM)
        internet.ip("address", "add", f"{SERVER}/32", "dev", "lo")
        yield Home(device, box, internet, directory)


def _cable(one: Node, name: str, address: str, other: Node, its_name: str, its_address: str) -> None:
    one.ip("link", "add", name, "type", "veth", "peer", "name", its_name, "netns", other.namespace)
    for node, interface, own in ((one, name, address), (other, its_name, its_address)):
        node.ip("address", "add", own, "dev", interface)
        node.ip("link", "set", interface, "up")


@pytest.fixture
def router(home: Home) -> Iterator[Home]:
    home.write()
    home.close()
    assert set(home.unit("ExecStart")) == {0}
    yield home
    home.unit("ExecStop")
    home.box.run("nft", "delete", "table", "inet", "tributary-firewall")


@contextmanager
def listening(node: Node, port: int, *, transparent: bool = False) -> Iterator[None]:
    """A TCP service on every address that says who came, and to which address."""
    with inside(node):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if transparent:
            listener.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(f"{node.namespace.split('-')[1]} {peer[0]} {connection.getsockname()[0]}".encode())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def heard(node: Node, host: str, port: int, source: str = "0.0.0.0") -> str:
    """What the service says, or 'silence' if nothing comes."""
    with inside(node):
        client = socket.socket()
    with client:
        client.settimeout(1)
        try:
            client.bind((source, 0))
            client.connect((host, port))
            return client.recv(100).decode()
        except TimeoutError:
            return "silence"


def test_web_connections_of_devices_come_to_the_converter_s_listener(router: Home) -> None:
    for port in (80, 443):
        with listening(router.box, port, transparent=True):
            assert heard(router.device, SERVER, port) == f"box 192.168.77.9 {SERVER}"


def test_without_a_converter_they_go_past_it(router: Home) -> None:
    with listening(router.internet, 80):
        assert heard(router.device, SERVER, 80) == f"internet {BOX_OUTSIDE} {SERVER}"


def test_other_ports_go_past_it_with_the_box_s_address(router: Home) -> None:
    with listening(router.internet, 8080), listening(router.box, 80, transparent=True):
        assert heard(router.device, SERVER, 8080) == f"internet {BOX_OUTSIDE} {SERVER}"


def test_a_modem_s_own_page_can_be_reached(router: Home) -> None:
    with listening(router.internet, 80), listening(router.box, 80, transparent=True):
        assert heard(router.device, MODEM, 80) == f"internet {BOX_OUTSIDE} {MODEM}"


def test_devices_reach_the_box_itself(router: Home) -> None:
    for port in (22, 53, 3128):
        with listening(router.box, port):
            assert heard(router.device, BOX, port) == f"box 192.168.77.9 {BOX}"


def test_from_outside_nothing_but_ssh_from_private_addresses_gets_in(router: Home) -> None:
    for port in (53, 80, 3128):
        with listening(router.box, port):
            assert heard(router.internet, BOX_OUTSIDE, port) == "silence"
    with listening(router.box, 22):
        assert heard(router.internet, BOX_OUTSIDE, 22) == f"box {MODEM} {BOX_OUTSIDE}"
        assert heard(router.internet, BOX_OUTSIDE, 22, source=SERVER) == "silence"


def test_from_outside_nobody_gets_to_devices(router: Home) -> None:
    router.internet.ip("route", "add", "192.168.77.0/24", "via", BOX_OUTSIDE)
    try:
        with listening(router.device, 8080):
            assert heard(router.internet, "192.168.77.9", 8080) == "silence"
    finally:
        router.internet.ip("route", "del", "192.168.77.0/24", "via", BOX_OUTSIDE)


def _asked_by_udp(home: Home) -> str:
    """Who answers a datagram to the server's port 443: 'refused by' an ICMP error's sender is all that there is."""
    with inside(home.device):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with client, listening_by_udp(home.internet, 443):
        client.settimeout(1)
        client.connect((SERVER, 443))
        client.send(b"hello")
        try:
            return client.recv(10).decode()
        except ConnectionRefusedError:
            return "refused"


@contextmanager
def listening_by_udp(node: Node, port: int) -> Iterator[None]:
    with inside(node):
        service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        service.bind((SERVER, port))
    service.settimeout(2)

    def answer() -> None:
        try:
            data, peer = service.recvfrom(10)
            service.sendto(data, peer)
        except TimeoutError:
            return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        service.close()


@pytest.mark.parametrize(("quic", "answer"), [("false", "refused"), ("true", "hello")])
def test_browsers_are_told_at_once_to_use_tcp_unless_quic_may_pass(home: Home, quic: str, answer: str) -> None:
    home.write(f"{CPE}quic = {quic}\n")
    home.unit("ExecStart")
    try:
        assert _asked_by_udp(home) == answer
    finally:
        home.unit("ExecStop")


def _restart(home: Home) -> None:
    home.unit("ExecStart")


@pytest.mark.parametrize("meanwhile", [lambda _home: None, _restart], ids=["once", "twice"])
def test_the_unit_takes_everything_back(home: Home, meanwhile: Callable[[Home], None]) -> None:
    home.write()
    before = home.traces()
    home.unit("ExecStart")
    meanwhile(home)
    assert home.traces() != before
    assert set(home.unit("ExecStop")) == {0}
    assert home.traces() == before
