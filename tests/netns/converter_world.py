"""The world of the native converter's tests: four network namespaces on plain veth cables.

    +-----+            +--------+ wired    10.0.1.0/24 fd00:1::/64 +---------+              +--------+
    | lan | -- home -- | client | -------------------------------- | gateway | -- origins -- | server |
    +-----+            |        | wireless 10.0.2.0/24 fd00:2::/64 |         |              +--------+
    10.0.9.2           +--------+ -------------------------------- +---------+   203.0.113.2, 2001:db8::2
    fd00:9::2                                                                    10.7.0.2 (private)

On every cable the left end is .2 and the right end is .1, except at the server. The client has an address besides that
is in none of its networks; lan's way out is the client, which may run a converter of its own (a home router).
"""

import json
import os
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from experiments.testbed import native
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.converter_names import Names
from tests.netns.squid_world import IPPROTO_MPTCP, Syn, Wire
from tests.netns.world import eventually, needs
from tributary.paths import CACHE

SERVER, SERVER6, SERVER_PRIVATE = "203.0.113.2", "2001:db8::2", "10.7.0.2"
GATEWAY, GATEWAY6 = "10.0.1.1", "fd00:1::1"
CLIENT, CLIENT6 = "10.0.1.2", "fd00:1::2"
LAN, LAN6 = "10.0.9.2", "fd00:9::2"
STRANGER, STRANGER6 = "192.0.2.2", "2001:db8:5::2"
TCP, MPTCP = 0, IPPROTO_MPTCP

_LINK = """
client:{name} 10.0.{number}.2/24 fd00:{number}::2/64 -- gateway:{name} 10.0.{number}.1/24 fd00:{number}::1/64
client: ip rule add from 10.0.{number}.2 lookup 10{number}
client: ip -6 rule add from fd00:{number}::2 lookup 10{number}
client: ip route add default via 10.0.{number}.1 dev {name} table 10{number}
client: ip route add default via 10.0.{number}.1 dev {name} metric {number}
client: ip route add default via fd00:{number}::1 dev {name} table 10{number}
client: ip route add default via fd00:{number}::1 dev {name} metric {number}
"""
# The gateway's default routes: whatever is not refused would leave, and be seen. Packets with the mark 1 are for this
# machine, whatever their address is (tproxy in nft(8)).
_NETWORK = f"""
lan client gateway server: sysctl -qw net.ipv4.conf.all.rp_filter=2
lan client gateway server: sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
server: sysctl -qw net.mptcp.enabled=0
gateway: sysctl -qw net.ipv4.tcp_fastopen=3
lan:home 10.0.9.2/24 fd00:9::2/64 -- client:home 10.0.9.1/24 fd00:9::1/64
{_LINK.format(name="wired", number=1)}
{_LINK.format(name="wireless", number=2)}
gateway:origins 203.0.113.1/24 2001:db8::1/64 10.7.0.1/24 -- server:origins {SERVER}/24 {SERVER6}/64 {SERVER_PRIVATE}/24
*: ip mptcp limits set subflow 4 add_addr_accepted 4
client: ip address add {STRANGER}/24 dev wired
client: ip address add {STRANGER6}/64 dev wired nodad
gateway: ip address add 192.0.2.1/24 dev wired
gateway: ip address add 2001:db8:5::1/64 dev wired nodad
lan: ip route add default via 10.0.9.1
lan: ip route add default via fd00:9::1
server: ip route add default via 203.0.113.1
server: ip route add default via 2001:db8::1
gateway: ip route add default via {SERVER}
gateway: ip route add default via {SERVER6}
gateway: ip route add 10.0.9.0/24 via {CLIENT}
gateway: ip route add fd00:9::/64 via {CLIENT6}
client gateway: ip rule add fwmark 1 lookup 99
client gateway: ip -6 rule add fwmark 1 lookup 99
client gateway: ip route add local 0.0.0.0/0 dev lo table 99
client gateway: ip -6 route add local ::/0 dev lo table 99
"""
PORTS = {"http": 3128, "socks5": 1080, "convert": 2263, "tproxy": 7001, "redirect": 7002}
METRICS = 9090

_IS_BUILT = (CACHE / "bin/tributary-converter").exists()
needs_tools = needs("curl", "ip", "nft", "ss", "sysctl", *(() if _IS_BUILT else ("cargo",)))

CLIENTS = '[clients]\nnetworks = ["10.0.0.0/8", "fd00::/8"]\n'
LISTENERS = "".join(
    f'[[listen]]\nkind = "{kind}"\nname = "{kind}"\naddress = "[::]:{PORTS[kind]}"\n'
    for kind in ("http", "socks5", "convert")
) + "".join(
    f'[[listen]]\nkind = "transparent"\nname = "{how}"\naddress = "[::]:{PORTS[how]}"\nintercept = "{how}"\n'
    for how in ("tproxy", "redirect")
)
ALL = CLIENTS + LISTENERS
EXTRA = '[[listen]]\nkind = "http"\nname = "extra"\naddress = "[::]:3129"\n'

_OURS = ", ".join(str(port) for port in (*PORTS.values(), METRICS))
# What the clients send to ports that are not the converter's own goes to a transparent listener.
_TPROXY = f"""table inet intercept {{
  chain prerouting {{
    type filter hook prerouting priority mangle
    iifname != {{ "wired", "wireless" }} return
    tcp dport != {{ {_OURS} }} tproxy to :{PORTS["tproxy"]} meta mark set 1 accept
  }}
}}"""
_REDIRECT = f"""table inet intercept {{
  chain prerouting {{
    type nat hook prerouting priority dstnat
    iifname {{ "wired", "wireless" }} tcp dport != {{ {_OURS} }} redirect to :{PORTS["redirect"]}
  }}
}}"""
RULES = {"tproxy": _TPROXY, "redirect": _REDIRECT}

Handler = Callable[[socket.socket], None]


@dataclass
class Service:
    """A server's port, and who came to it."""

    port: int
    peers: list[tuple[str, int]] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)


@dataclass
class Converter:
    """A running converter, and what it says of itself."""

    popen: subprocess.Popen[bytes]
    node: Node
    directory: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def status(self) -> dict[str, Any]:
        """What it tells at its control socket."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(5)
            asking.connect(str(self.directory / "control"))
            with asking.makefile("rb") as answer:
                return dict(json.load(answer))

    def lines(self) -> list[dict[str, Any]]:
        """The access log."""
        text = (self.directory / "access").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels."""
        with self.node.entered():
            asking = socket.create_connection(("127.0.0.1", METRICS), timeout=5)
        with asking:
            asking.sendall(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n")
            with asking.makefile("rb") as answer:
                text = answer.read().decode().partition("\r\n\r\n")[2]
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def outcomes(self, listener: str) -> Mapping[str, int]:
        """How connections and requests at the listener ended, and how many did so."""
        start = "tributary_converter_outcomes_total{"
        found = {name: value for name, value in self.metrics().items() if name.startswith(start)}
        mine = {name: value for name, value in found.items() if f'listener="{listener}"' in name}
        return {name.partition('outcome="')[2].partition('"')[0]: int(value) for name, value in mine.items()}

    def wait_for(self, text: str, seconds: float = 10) -> None:
        """Until its log has ``text``."""
        eventually(lambda: text in self.log, seconds)

    def wait_until_idle(self, seconds: float = 5) -> None:
        """Until nobody is connected any more."""
        eventually(lambda: self.status()["open_connections"] == 0, seconds)

    def write(self, config: str) -> None:
        """Put a new configuration into its file."""
        write_config(self.directory, config)

    def reload(self, config: str) -> str:
        """Put a new configuration into its file, send SIGHUP, and return what it then logged."""
        before = len(self.log)
        self.write(config)
        self.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "reloaded" in self.log[before:])
        return self.log[before:]

    def descriptors(self) -> int:
        """Open files."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def idle_descriptors(self) -> int:
        """Open files when it has nothing to do, once all of its threads are there."""
        eventually(lambda: len(list(Path(f"/proc/{self.pid}/task").iterdir())) > 2)
        seen: list[int] = []
        while len(seen) < 6 or len(set(seen[-6:])) > 1:
            seen.append(self.descriptors())
            time.sleep(0.02)
        return seen[-1]

    def resident(self) -> int:
        """Bytes of memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def cpu_seconds(self) -> float:
        """Of the processor, so far (proc(5), utime and stime)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_config(directory: Path, config: str) -> Path:
    """``config`` with the files and addresses of the tests, unless it has those tables itself."""
    tables = {
        "control": f'socket = "{directory}/control"',
        "log": f'access = "{directory}/access"',
        "metrics": f'address = "127.0.0.1:{METRICS}"',
        "names": f'servers = ["{SERVER}"]',
    }
    added = [f"[{name}]\n{key}\n" for name, key in tables.items() if f"[{name}]" not in config]
    file = directory / "converter.toml"
    file.write_text("\n".join((config, *added)))
    return file


@dataclass
class World:
    """The namespaces, and what tests do in them."""

    lan: Node
    client: Node
    gateway: Node
    server: Node
    directory: Path
    wire: Wire
    names: Names
    _intercept: str = ""
    _port: int = 8000

    @contextmanager
    def converter(self, config: str, node: Node | None = None, *wrapper: str) -> Iterator[Converter]:
        """A converter at the gateway, or at ``node``; it must have survived the block."""
        node = node or self.gateway
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            converter = start(node, Path(directory), config, *wrapper)
            try:
                eventually(lambda: converter.popen.poll() is not None or _answers(converter))
                assert converter.popen.poll() is None, converter.log
                yield converter
                assert converter.popen.poll() in (None, 0), converter.log
                assert "panic" not in converter.log
            finally:
                converter.popen.kill()
                converter.popen.wait()

    @contextmanager
    def serving(self, handler: Handler, port: int = 0, receive_buffer: int = 0) -> Iterator[Service]:
        """A service at the server, on a port of its own; ``handler`` is called in a thread for each connection.

        Its sockets hold ``receive_buffer`` bytes that are not read yet, if that is not 0 (``SO_RCVBUF``).
        """
        self._port += 1
        service = Service(port or self._port)
        with self.server.entered():
            listener = socket.create_server(("::", service.port), family=socket.AF_INET6, dualstack_ipv6=True)
        if receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                handler(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, peer = listener.accept()
                    connection.settimeout(20)
                    service.peers.append((peer[0].removeprefix("::ffff:"), peer[1]))
                    service.connections.append(connection)
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield service
        finally:
            # A close alone would leave the thread in accept(2).
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            for connection in service.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def connect(
        self, host: str, port: int, protocol: int = TCP, source: str = "", node: Node | None = None, seconds: float = 10
    ) -> socket.socket:
        """A connection of the client's, or of ``node``'s."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with (node or self.client).entered():
            connection = socket.socket(family, socket.SOCK_STREAM, protocol)
        try:
            connection.settimeout(seconds)
            if source:
                connection.bind((source, 0))
            connection.connect((host, port))
        except OSError:
            connection.close()
            raise
        return connection

    def intercept(self, how: str) -> None:
        """From now on the gateway brings the client's connections to this transparent listener; ``""``: to none."""
        if how != self._intercept:
            self._intercept = how
            self.nft("table inet intercept\ndelete table inet intercept\n" + RULES.get(how, ""))

    def nft(self, rules: str, node: Node | None = None) -> None:
        """Load rules at the gateway, or at ``node``."""
        command = (node or self.gateway).command(["nft", "-f", "-"])
        subprocess.run(command, input=rules, text=True, check=True, timeout=10)

    def syns(self) -> list[Syn]:
        """The SYNs that left the gateway since the last call."""
        return self.wire.syns()

    def syns_to_servers(self) -> list[Syn]:
        """Those since the last call that were no question to a name server, and none of the tests' own."""
        return [syn for syn in self.syns() if syn.port not in (53, METRICS)]


def _answers(converter: Converter) -> bool:
    with suppress(OSError, ValueError):
        return bool(converter.status()["pid"] == converter.pid)
    return False


@cache
def program() -> str:
    """The converter's binary, built if it is not."""
    return str(native.build().converter)


def run(*arguments: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    """The program, to its end."""
    return subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=seconds, check=False)


def start(node: Node, directory: Path, config: str, *wrapper: str) -> Converter:
    """Start a converter in ``node`` whose files are in ``directory``; it may not be ready yet, or never be."""
    file = write_config(directory, config)
    command = node.command([*wrapper, program(), "--config", str(file)])
    with (directory / "log").open("ab") as log:
        popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return Converter(popen, node, directory)


def leave_files(converter: Converter, free: int) -> None:
    """Let the converter open so many descriptors more, and no other."""
    converter.idle_descriptors()
    taken = {int(entry.name) for entry in Path(f"/proc/{converter.pid}/fd").iterdir()}
    most = resource.prlimit(converter.pid, resource.RLIMIT_NOFILE)[1]
    unused = (number for number in count() if number not in taken)
    resource.prlimit(converter.pid, resource.RLIMIT_NOFILE, (next(islice(unused, free, None)), most))


@contextmanager
def standing() -> Iterator[World]:
    """Build all of it; whatever happens, take all of it down again."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conv-")))
        nodes = stack.enter_context(standing_nodes("conv-", _NETWORK, directory))
        lan, client, gateway, server = (nodes[name] for name in ("lan", "client", "gateway", "server"))
        wire, names = Wire(gateway), Names(server, SERVER)
        stack.callback(wire.close)
        stack.callback(names.close)
        yield World(lan, client, gateway, server, directory, wire, names)


@pytest.fixture(scope="module")
def conv() -> Iterator[World]:
    """The world, shared by the tests of one file."""
    program()
    with standing() as world:
        yield world


@pytest.fixture(scope="module")
def running(conv: World, request: pytest.FixtureRequest) -> Iterator[Converter]:
    """A converter with the CONFIG of the tests' file, shared by them."""
    with conv.converter(request.module.CONFIG) as converter:
        yield converter


@pytest.fixture
def net(conv: World, running: Converter) -> World:
    """The shared world, with nothing left over from the test before."""
    running.wait_until_idle()
    return conv
