"""The world of the native converter's tests: four network namespaces on plain veth cables.

    +-----+            +--------+ wired    10.0.1.0/24 fd00:1::/64 +---------+              +--------+
    | lan | -- home -- | client | -------------------------------- | gateway | -- origins -- | server |
    +-----+            |        | wireless 10.0.2.0/24 fd00:2::/64 |         |              +--------+
    10.0.9.2           +--------+ -------------------------------- +---------+   203.0.113.2, 2001:db8::2
    fd00:9::2                                                                    10.7.0.2 (private)

On every cable the left end is .2 and the right end is .1, except at the server. The client has an address besides that
is in none of its networks; lan's way out is the client, which may run a converter of its own (a home router).
"""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns import world
from tests.netns.connections import MPTCP, TCP, Refused, again_and_again, more, take_head
from tests.netns.converter_clients import LISTENER, TRANSPARENT, ask, request
from tests.netns.converter_names import Names
from tests.netns.converter_process import METRICS, SERVER, Converter, program, start
from tests.netns.converter_services import Handler, hold
from tests.netns.squid_world import Syn, Wire
from tests.netns.world import connected, eventually, listener_at
from tributary.paths import CACHE

SERVER6, SERVER_PRIVATE = "2001:db8::2", "10.7.0.2"
GATEWAY, GATEWAY6 = "10.0.1.1", "fd00:1::1"
OUTSIDE, OUTSIDE6 = "203.0.113.1", "2001:db8::1"
"""The gateway, as the server sees it."""
CLIENT, CLIENT6 = "10.0.1.2", "fd00:1::2"
LAN, LAN6 = "10.0.9.2", "fd00:9::2"
STRANGER, STRANGER6 = "192.0.2.2", "2001:db8:5::2"

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

_IS_BUILT = (CACHE / "bin/tributary-converter").exists()
_TOOLS = ("curl", "ip", "nft", "ss", "sysctl", *(() if _IS_BUILT else ("cargo",)))

CLIENTS = '[clients]\nnetworks = ["10.0.0.0/8", "fd00::/8"]\n'
LISTENERS = "".join(
    f'[[listen]]\nkind = "{kind}"\nname = "{kind}"\naddress = "[::]:{PORTS[kind]}"\n'
    for kind in ("http", "socks5", "convert")
) + "".join(
    f'[[listen]]\nkind = "transparent"\nname = "{how}"\naddress = "[::]:{PORTS[how]}"\nintercept = "{how}"\n'
    for how in ("tproxy", "redirect")
)
ALL = CLIENTS + LISTENERS
TIMES = '[timeouts]\nrequest = "600ms"\nconnect = "3s"\nidle = "30s"\nhalf_closed = "600ms"\n'
BUFFER = 64 << 10
SHORT_TIMEOUTS = ALL + TIMES + '[limits]\nbuffer = "64KiB"\n'
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
ENDLESS = 1 << 40  # bytes, for lengths that are never reached


@dataclass
class Service:
    """A server's port, and who came to it: addresses, and the server's ends of their connections."""

    port: int
    came: list[tuple[str, int]] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def peers(self) -> list[tuple[str, int]]:
        return [(host.removeprefix("::ffff:"), port) for host, port in self.came]

    def connection(self) -> socket.socket:
        """The first one, once it has come."""
        eventually(lambda: self.connections)
        return self.connections[0]


@dataclass
class World:
    lan: Node
    client: Node
    gateway: Node
    server: Node
    directory: Path
    wire: Wire
    names: Names
    _intercept: str = field(default="", init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: count(8001), init=False)

    # --- What is there for the length of a block ---

    @contextmanager
    def converter(self, config: str, *wrapper: str, node: Node | None = None) -> Iterator[Converter]:
        """A converter at the gateway, or at ``node``, that ``wrapper`` starts if given.

        It must have survived the block, or have ended as it was waited for (``Converter.ends``).
        """
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            converter = start(node or self.gateway, Path(directory), config, *wrapper)
            try:
                eventually(lambda: converter.popen.poll() is not None or converter.answers())
                assert converter.popen.poll() is None, converter.log
                yield converter
                assert converter.popen.poll() in (None, converter.exit_code), converter.log
                assert "panic" not in converter.log
            finally:
                converter.kill()

    def refused(self, config: str, code: int, *wrapper: str) -> str:
        """The log of a converter that does not start at the gateway, but ends with this exit code."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            converter = start(self.gateway, Path(directory), config, *wrapper)
            try:
                converter.ends(code)
                return converter.log
            finally:
                converter.kill()

    @contextmanager
    def serving(self, handler: Handler, port: int = 0, receive_buffer: int = 0) -> Iterator[Service]:
        """A service at the server, on a port of its own; ``handler`` is called in a thread for each connection.

        Its sockets hold ``receive_buffer`` bytes that are not read yet, if that is not 0 (``SO_RCVBUF``).
        """
        service = Service(port or next(self._numbers))
        listener = listener_at(self.server, service.port, protocol=TCP, receive_buffer=receive_buffer)

        def serve(connection: socket.socket) -> None:
            connection.settimeout(20)
            service.connections.append(connection)
            handler(connection)

        with world.serving(listener, serve) as service.came:
            try:
                yield service
            finally:
                for connection in service.connections:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def filtered(
        self, node: Node, rule: str, hook: str = "input", family: str = "inet", priority: str = "filter"
    ) -> Iterator[str]:
        """A rule of a packet filter at ``node``; yields its table, as nft(8) calls it."""
        table = f"{family} test{next(self._numbers)}"
        chain = f"chain {hook} {{ type filter hook {hook} priority {priority}; {rule}; }}"
        with self.ruled(f"table {table} {{ {chain}; }}", node):
            yield table

    def ruled(self, table: str, node: Node | None = None) -> AbstractContextManager[None]:
        """One table of nft(8) at the gateway, or at ``node``."""
        return world.ruled(node or self.gateway, table)

    @contextmanager
    def added(self, node: Node, family: str, kind: str, what: str) -> Iterator[None]:
        """An address, a route or a rule of ``node``, as ip(8) is told of it behind ``-4 route add``."""
        node.ip(family, kind, "add", *what.split())
        try:
            yield
        finally:
            node.ip(family, kind, "delete", *what.split())

    # --- Clients ---

    def connect(
        self, host: str, port: int, protocol: int = TCP, source: str = "", node: Node | None = None, seconds: float = 10
    ) -> socket.socket:
        return connected(node or self.client, host, port, (source, 0) if source else None, seconds, protocol=protocol)

    def proxy(self, kind: str, protocol: int = TCP, source: str = "") -> socket.socket:
        """A connection to the listener of ``kind`` that a client talks to knowingly, by its source's version of IP."""
        host = GATEWAY6 if ":" in source else GATEWAY
        return self.connect(host, PORTS[LISTENER[kind]], protocol, source or CLIENT)

    def opened(
        self, kind: str, host: str, port: int, protocol: int = TCP, early: bytes = b"", source: str = ""
    ) -> socket.socket:
        """A connection through the converter on which the server at ``host`` and ``port`` hears what is sent.

        With ``absolute`` only requests in absolute-form do. ``early`` goes out behind the request, before its answer
        came. Raises Refused; a transparent converter can refuse later only.
        """
        if kind in TRANSPARENT:
            self.intercept(kind)
            connection = self.connect(host, port, protocol, source or (CLIENT6 if ":" in host else CLIENT))
        else:
            connection = self.proxy(kind, protocol, source)
        try:
            ask(connection, kind, host, port, early)
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, kind: str, port: int, protocol: int = TCP) -> socket.socket:
        """A connection on which a GET was sent, through the converter."""
        connection = self.opened(kind, SERVER, port, protocol)
        connection.sendall(request(kind, SERVER, port))
        return connection

    def hears(self, kind: str, host: str, port: int, protocol: int = TCP, early: bytes = b"", source: str = "") -> str:
        """What a client hears that asks for ``host`` and ``port``: as in Refused, or what the server says first."""
        try:
            with self.opened(kind, host, port, protocol, early, source) as connection:
                if kind == "absolute":
                    connection.sendall(request(kind, host, port))
                    return take_head(connection).split()[1].decode()
                return more(connection, 100).decode()
        except Refused as refused:
            return str(refused.args[0])
        except ConnectionError:
            return "reset"

    def asking(self, kind: str, port: int, protocol: int = TCP, clients: int = 1) -> AbstractContextManager[list[str]]:
        """Clients that ask for SERVER again and again for the length of the block; what they hear."""
        return again_and_again(lambda: self.hears(kind, SERVER, port, protocol), clients)

    @contextmanager
    def joined(
        self, kind: str, protocol: int = TCP, way: str = "down"
    ) -> Iterator[tuple[socket.socket, socket.socket]]:
        """A client's and a server's end of one connection through the converter.

        With ``absolute`` an endless response is on its ``way`` down, or an endless request on its way up.
        """
        with self.serving(hold) as service, self.opened(kind, SERVER, service.port, protocol) as client:
            if kind == "absolute" and way == "up":
                client.sendall(request(kind, SERVER, service.port, "/", "POST", f"Content-Length: {ENDLESS}\r\n"))
            elif kind == "absolute":
                client.sendall(request(kind, SERVER, service.port))
            server = service.connection()
            if kind == "absolute":
                take_head(server)
            if kind == "absolute" and way == "down":
                server.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {ENDLESS}\r\n\r\n".encode())
                take_head(client)
            try:
                yield client, server
            finally:
                server.close()

    # --- The gateway ---

    def nobody_listens(self, port: int) -> bool:
        try:
            # From there, since what clients send to other ports may be intercepted.
            self.connect(GATEWAY, port, MPTCP, node=self.gateway).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            # It was still in the queue when the listener was closed.
            return False
        return False

    def held(self, port: int) -> list[str]:
        """The gateway's connections to this port of the server's that take memory of a process."""
        lines = self.gateway.run("ss", "-Htan", "dport", "=", f":{port}").splitlines()
        return [line for line in lines if not line.startswith(("TIME-WAIT", "FIN-WAIT"))]

    def backlogs(self) -> set[str]:
        """Of two of the converter's listeners there, one of which speaks MPTCP."""
        which = ("sport", f"= :{PORTS['http']}", "or", "sport", f"= :{PORTS['redirect']}")
        return {line.split()[2] for line in self.gateway.run("ss", "-Hltn", *which).splitlines()}

    def intercept(self, how: str) -> None:
        """From now on the gateway brings the client's connections to this transparent listener; ``""``: to none."""
        if how != self._intercept:
            self._intercept = how
            self.gateway.run("nft", "table inet intercept\ndelete table inet intercept\n" + RULES.get(how, ""))

    def syns(self) -> list[Syn]:
        """The SYNs that left the gateway since the last call."""
        return self.wire.syns()

    def syns_to_servers(self) -> list[Syn]:
        """Those since the last call that were no question to a name server, and none of the tests' own."""
        return [syn for syn in self.syns() if syn.port not in (53, METRICS)]


@pytest.fixture(scope="module")
def conv_built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    program()
    directory = tmp_path_factory.mktemp("conv")
    with (
        standing_nodes("conv-", _NETWORK, directory) as nodes,
        closing(Wire(nodes["gateway"])) as wire,
        closing(Names(nodes["server"], SERVER)) as names,
    ):
        yield World(**nodes, directory=directory, wire=wire, names=names)


@pytest.fixture
def conv(conv_built: World) -> World:
    """The shared world, with nothing left over from the test before."""
    conv_built.names.forget()
    conv_built.syns()
    return conv_built


@pytest.fixture(scope="module")
def running(conv_built: World, request: pytest.FixtureRequest) -> Iterator[Converter]:
    """A converter with the CONFIG of the tests' file, shared by them."""
    with conv_built.converter(request.module.CONFIG) as converter:
        yield converter


@pytest.fixture
def net(conv: World, running: Converter) -> World:
    running.wait_until_idle()
    conv.syns()
    return conv
