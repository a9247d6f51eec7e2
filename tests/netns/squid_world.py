"""Three namespaces around one running Squid, with eyes on the gateway's every interface.

client 10.0.0.2, fd00::2, 192.0.2.2 --- gateway, with Squid --- server 203.0.113.2, 2001:db8::2
"""

import os
import pwd
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node, Process
from squid import host
from tests.netns.connections import TCP, read_all
from tests.netns.world import connected, listener_at, serving, socket_at
from tributary.wire.options import parse

PROXY = ("10.0.0.1", 3128)
PROXY6 = ("fd00::1", 3128)
SERVER, SERVER6 = "203.0.113.2", "2001:db8::2"
OUTSIDER = "192.0.2.2"  # an address of the client's that is in none of its networks
HEAD_TIMEOUT = 2.0
COUNTERS_PORT = 3127

# Default routes everywhere: whatever is not refused would leave, and be seen.
_NETWORK = f"""
client:gateway 10.0.0.2/24 fd00::2/64 {OUTSIDER}/24 -- gateway:clients 10.0.0.1/24 fd00::1/64 192.0.2.1/24
server:gateway {SERVER}/24 {SERVER6}/64 -- gateway:servers 203.0.113.1/24 2001:db8::1/64
gateway: sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
server: sysctl -qw net.mptcp.enabled=0
client: ip route add default via 10.0.0.1
client: ip route add default via fd00::1
server: ip route add default via 203.0.113.1
server: ip route add default via 2001:db8::1
gateway: ip route add default via {SERVER}
gateway: ip route add default via {SERVER6}
"""

# The names that a resolver under somebody else's control could answer so.
HOSTS = """127.0.0.1 loopback.test
::1 loopback6.test
169.254.169.254 metadata.test
10.0.0.1 own.test
203.0.113.1 own-public.test
192.168.1.1 private.test
203.0.113.2 mixed.test
127.0.0.1 mixed.test
203.0.113.2 server.test
"""

SETTINGS = f"""client_networks = ["10.0.0.0/8", "fd00::/8"]
head_timeout = "{HEAD_TIMEOUT:.0f}s"
drain = "0s"
"""


@dataclass(frozen=True)
class Syn:
    """A SYN without ACK that left the gateway, loopback included."""

    interface: str
    target: str
    port: int
    with_mptcp: bool


class Wire:
    """Sees every packet of a node's that leaves over any interface, loopback included (packet(7))."""

    def __init__(self, node: Node) -> None:
        # ETH_P_ALL without bind: all interfaces.
        self._socket = socket_at(node, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE: miss nothing while a test is busy
        self._socket.setblocking(False)

    def syns(self) -> list[Syn]:
        """The SYNs that left since the last call."""
        seen = []
        with suppress(BlockingIOError):
            while True:
                packet, (interface, _, kind, *_) = self._socket.recvfrom(65536)
                syn = _syn(packet, interface) if kind == socket.PACKET_OUTGOING else None
                seen += [syn] if syn else []
        return seen

    def close(self) -> None:
        self._socket.close()


def _syn(packet: bytes, interface: str) -> Syn | None:
    version = packet[0] >> 4
    start, protocol = ((packet[0] & 15) * 4, packet[9]) if version == 4 else (40, packet[6])
    tcp = packet[start:]
    if protocol != socket.IPPROTO_TCP or tcp[13] & 0x12 != 0x02:
        return None
    raw, family = (packet[16:20], socket.AF_INET) if version == 4 else (packet[24:40], socket.AF_INET6)
    port = struct.unpack("!H", tcp[2:4])[0]
    return Syn(interface, socket.inet_ntop(family, raw), port, bool(parse(tcp[20 : (tcp[12] >> 4) * 4])))


@dataclass
class Origin:
    """A server that writes down what it is sent and answers 200; on port 443 it echoes instead."""

    node: Node
    received: list[bytes] = field(default_factory=list)
    body: bytes = b""
    fields: bytes = b""

    def listening(self, port: int) -> AbstractContextManager[object]:
        """It listens at this port for the length of the block."""
        return serving(listener_at(self.node, port, protocol=TCP), self._echo if port == 443 else self._answer)

    def take(self) -> list[bytes]:
        """What has come in since the last call, one item for each connection that brought anything."""
        taken, self.received[:] = list(self.received), []
        return [data for data in taken if data]

    def _answer(self, connection: socket.socket) -> None:
        self.received.append(b"")
        index = len(self.received) - 1
        while b"\r\n\r\n" not in self.received[index]:
            data = connection.recv(65536)
            if not data:
                return
            self.received[index] += data
        fields = f"Date: {formatdate(usegmt=True)}\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n"
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + fields.encode() + self.fields + b"\r\n" + self.body)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(2)
        while data := connection.recv(65536):
            self.received[index] += data

    @staticmethod
    def _echo(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)


@dataclass(frozen=True)
class Answer:
    """What a client got: ``status`` is None where nothing came, ``ended`` is how: closed, reset, or silence."""

    status: int | None
    head: str
    body: bytes
    ended: str

    def field(self, name: str) -> str:
        """The value of a header field, empty where it is not there."""
        lines = (line.partition(": ") for line in self.head.split("\r\n"))
        return next((value for key, _, value in lines if key.lower() == name.lower()), "")


@dataclass
class World:
    """The namespaces, the running Squid, and what tests look at."""

    client: Node
    gateway: Node
    server: Node
    directory: Path
    origin: Origin
    wire: Wire
    squid: Process

    @property
    def access_log(self) -> str:
        return (self.directory / "state/log/access.log").read_text()

    def syns(self) -> list[Syn]:
        """The SYNs that left the gateway since the last call, without those to resolvers."""
        return [syn for syn in self.wire.syns() if syn.port != 53]

    def connect(self, proxy: tuple[str, int] = PROXY, source: str = "", protocol: int = 0) -> socket.socket:
        """A connection of the client's to the proxy."""
        return connected(self.client, *proxy, (source, 0) if source else None, 10, protocol=protocol)

    def send(self, data: bytes, seconds: float = 10, proxy: tuple[str, int] = PROXY, source: str = "") -> Answer:
        """Send ``data`` to the proxy as it is; read until the end, or for ``seconds``."""
        with self.connect(proxy, source) as connection:
            with suppress(ConnectionError):
                connection.sendall(data)
            return read_answer(connection, seconds)

    def ask(self, method: str, url: str, proxy: tuple[str, int] = PROXY, source: str = "") -> Answer:
        """A well-formed request for ``url``; for CONNECT that is HOST:PORT."""
        host_field = url.removeprefix("http://").partition("/")[0]
        text = f"{method} {url} HTTP/1.1\r\nHost: {host_field}\r\nConnection: close\r\n\r\n"
        return self.send(text.encode(), proxy=proxy, source=source)


def read_answer(connection: socket.socket, seconds: float) -> Answer:
    """All that comes until the end of ``connection``, or for ``seconds``."""
    data, ended = read_all(connection, seconds)
    head, _, body = data.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head.startswith(b"HTTP/1.") else None
    return Answer(status, head.decode("latin-1"), body, ended)


@pytest.fixture(scope="module")
def squid_built() -> Iterator[World]:
    """All of it; whatever happens, all of it is taken down again. Skips the test where a tool is missing."""
    if missing := [tool for tool in host.TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    with ExitStack() as stack:
        # Squid's user has to reach the state directory, and pytest's own folders are closed to others.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sq-")))
        directory.chmod(0o755)
        nodes = stack.enter_context(standing_nodes("sq-", _NETWORK, directory))
        client, gateway, server = (nodes[name] for name in ("client", "gateway", "server"))
        (directory / "hosts").write_text(HOSTS)
        origin = Origin(server)
        for port in (80, 443, 8080):
            stack.enter_context(origin.listening(port))
        squid = stack.enter_context(start_squid(gateway, directory, f"{SETTINGS}counters_port = {COUNTERS_PORT}\n"))
        wire = Wire(gateway)
        stack.callback(wire.close)
        yield World(client, gateway, server, directory, origin, wire, squid)


@pytest.fixture
def net(squid_built: World) -> World:
    """The shared world, with nothing left over from the test before."""
    squid_built.origin.take()
    squid_built.origin.body = squid_built.origin.fields = b""
    squid_built.syns()
    return squid_built


def start_squid(node: Node, directory: Path, settings: str, name: str = "state") -> Process:
    """`squid run` in ``node`` with its state in ``directory``/``name``; returns once it is ready."""
    file = write_settings(directory, settings, name)
    return node.start(f"squid-{name}", squid("run", str(file))).wait_until_ready()


def write_settings(directory: Path, settings: str, name: str = "state") -> Path:
    """A settings file with the world's names, and a state directory of its own."""
    file = directory / f"{name}.toml"
    file.write_text(f'{settings}hosts_file = "{directory}/hosts"\nstate_directory = "{directory}/{name}"\n')
    return file


def squid(*words: str) -> Sequence[str]:
    """The command as a user types it."""
    return (sys.executable, "-m", "squid", *words)


def squids_socket(node: Node, family: int, protocol: int) -> socket.socket:
    """A socket of Squid's user in ``node``: the guard looks at who made it (nft(8), meta skuid)."""
    with node.entered():
        os.seteuid(pwd.getpwnam(host.USER).pw_uid)
        try:
            made = socket.socket(family, socket.SOCK_STREAM, protocol)
        finally:
            os.seteuid(0)
    made.settimeout(2)
    return made
