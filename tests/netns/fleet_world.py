"""The world of the fleet's tests: the gateways of ansible/inventory/fleet.yml, each a network namespace.

    200 homes == dsl, lte == router -- lan (a switch) -- gw1, gw2, gw3     192.0.2.11 to .13, 2001:db8:12::11 to ::13
                                \\---- origin 203.0.113.80

Every home is a namespace with an address on each of two links; its kernel joins over the second one. The router spreads
198.51.100.80 and 2001:db8:80::80 over the gateways that announce them to its BIRD. A gateway's cable ends in a switch,
so that the router has to find out by itself that a gateway is dead.
"""

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.network import lay
from experiments.testbed.node import Node, end_processes
from tests.netns.connections import MPTCP, take, take_head
from tests.netns.fleet_gateway import NODES, PORT, SHARED, Gateway, Host, Sessions, files_of_the_roles
from tests.netns.fleet_router import Router, following, start_router
from tests.netns.squid_world import Origin
from tests.netns.world import connected, needs
from tributary.settings.errors import CommandError

needs_tools = needs("bird", "birdc", "cargo", "ip", "nft", "nstat", "setpriv", "ss", "sysctl")

HOMES = 200
ORIGIN, ECHO = "203.0.113.80", 443
_PREFIX = "fl-"
SOL_MPTCP, MPTCP_INFO, _SUBFLOWS_TOTAL = 284, 1, 80


@dataclass(frozen=True)
class Home:
    """A client with two links."""

    number: int
    node: Node

    def address(self, link: str, version: int = 4) -> str:
        return _on_link(link, version, self.number)

    def path_manager(self, *commands: str) -> None:
        """Run commands of ip-mptcp(8)."""
        _batch(self.node.namespace, [f"mptcp {command}" for command in commands])

    def open(self, version: int = 4, seconds: float = 5) -> "Session":
        """A session with the fleet, through which the origin echoes; raises OSError if it does not come about."""
        connection = connected(self.node, SHARED[version], PORT, seconds=seconds, protocol=MPTCP)
        try:
            at = f"{ORIGIN}:{ECHO}"
            connection.sendall(f"CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
            assert take_head(connection).split()[1] == b"200"
        except BaseException:
            connection.close()
            raise
        return Session(self, version, connection)


@dataclass(frozen=True)
class Session:
    """A home's connection to the origin, which sends everything back."""

    home: Home
    version: int
    connection: socket.socket

    def exchange(self, count: int = 1 << 14, seconds: float = 10) -> None:
        """Send ``count`` bytes of its own, and check that they come back; raises OSError."""
        self.connection.settimeout(seconds)
        block = os.urandom(1 << 14)
        for _ in range(0, count, len(block)):
            self.connection.sendall(block)
            assert take(self.connection, len(block)) == block

    def subflows(self) -> int:
        """How many its home's kernel has (struct mptcp_info of linux/mptcp.h, mptcpi_subflows_total)."""
        return self.connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 128)[_SUBFLOWS_TOTAL]

    def end(self, seconds: float = 10) -> None:
        """Say that nothing more comes, and wait for the other side to do the same; raises OSError."""
        with self.connection:
            self.connection.settimeout(seconds)
            self.connection.shutdown(socket.SHUT_WR)
            assert self.connection.recv(1) == b""


@dataclass
class Fleet:
    homes: Sequence[Home]
    router: Router
    gateways: Mapping[str, Gateway]
    pool: ThreadPoolExecutor

    @contextmanager
    def sessions(self, version: int = 4, homes: Sequence[Home] = ()) -> Iterator[list[Session]]:
        """A session of each home, or of each of ``homes``, which has carried something each way."""
        with ExitStack() as stack:
            opened = list(self.pool.map(lambda home: home.open(version), homes or self.homes))
            for session in opened:
                stack.callback(session.connection.close)
            self.exchange(opened)
            yield opened

    def exchange(self, sessions: Sequence[Session], count: int = 1 << 14) -> None:
        """Have all sessions carry ``count`` bytes each way at once."""
        list(self.pool.map(lambda session: session.exchange(count), sessions))

    def where(self) -> dict[str, set[int]]:
        """The homes that have a session, by the node that has it."""
        return {name: _homes(gateway.sessions()) for name, gateway in self.gateways.items()}

    @contextmanager
    def whole(self) -> Iterator[None]:
        """After the block every node that stopped serves again, unless a Ctrl-C ended it."""
        try:
            yield
        except Exception:
            self._recover()
            raise
        self._recover()

    def _recover(self) -> None:
        for gateway in self.gateways.values():
            gateway.recover()
        self.router.wait_for(NODES, 40)


def _homes(sessions: Sessions) -> set[int]:
    return {home_of(client) for subflows in sessions.values() for _, client in subflows}


def home_of(address: str) -> int:
    """The number of the home that has ``address``."""
    return int(re.split("[.:]", address)[-1])


def _on_link(link: str, version: int, last: int) -> str:
    if version == 4:
        return f"{'10.64' if link == 'dsl' else '10.128'}.0.{last}"
    return f"2001:db8:{'1000' if link == 'dsl' else '1001'}::{last}"


def _batch(namespace: str, lines: Sequence[str], *options: str) -> None:
    command = ["ip", *options, *(["-n", namespace] if namespace else []), "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines), text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, f"{namespace}: {done.stderr}"


def _mac(link: str, last: int) -> str:
    return f"02:00:00:0{1 if link == 'dsl' else 2}:{last >> 8:02x}:{last & 255:02x}"


ROUTER_LAST = 254


def _wire_home(home: Home) -> None:
    """Addresses, and routes by source: the first subflow leaves by dsl, the kernel joins over lte."""
    links = {101: "dsl", 102: "lte"}
    _batch(home.node.namespace, [f"link set {each} up" for each in ("lo", *links.values())])
    for version in SHARED:
        lines = []
        for table, link in links.items():
            own, via = home.address(link, version), _on_link(link, version, ROUTER_LAST)
            lines += [
                f"address add {own}/{24 if version == 4 else 64} dev {link}{' nodad' if version == 6 else ''}",
                # Said, and not asked for: the kernel keeps a thousand answers of ARP for all namespaces together.
                f"neighbour add {via} lladdr {_mac(link, ROUTER_LAST)} dev {link} nud permanent",
                f"rule add from {own} lookup {table}",
                f"route add default via {via} dev {link} table {table}",
                f"route add default via {via} dev {link} metric {table}",
            ]
        lines.append(f"mptcp endpoint add {home.address('lte', version)} dev lte subflow")
        _batch(home.node.namespace, lines, f"-{version}")


def _wire_links(router: Node, homes: Sequence[Home]) -> None:
    """Both access links: bridges at the router, to which homes are plugged that do not see each other."""
    lines = []
    for link in ("dsl", "lte"):
        lines += [
            f"link add {link} address {_mac(link, ROUTER_LAST)} type bridge mcast_snooping 0",
            f"link set {link} up",
            f"address add {_on_link(link, 4, ROUTER_LAST)}/24 dev {link}",
            f"address add {_on_link(link, 6, ROUTER_LAST)}/64 dev {link} nodad",
        ]
        for home in homes:
            port, mac = f"{link}{home.number}", _mac(link, home.number)
            lines += [
                f"link add {port} type veth peer name {link} address {mac} netns {home.node.namespace}",
                f"link set {port} up master {link}",
                f"link set {port} type bridge_slave isolated on flood off mcast_flood off bcast_flood off",
            ]
            lines += [
                f"neighbour add {home.address(link, version)} lladdr {mac} dev {link} nud permanent"
                for version in SHARED
            ]
    _batch(router.namespace, lines)


_LAN = """
switch: ip link add lan type bridge mcast_snooping 0
switch: ip link set lan up
router:lan 192.0.2.1/24 2001:db8:12::1/64 -- switch:router
switch: ip link set router master lan
router:origin 203.0.113.1/24 -- origin:eth0 203.0.113.80/24
origin: ip route add default via 203.0.113.1
"""
_GATEWAY = """
{name}:eth1 {address}/24 {address6}/64 -- switch:{name}
switch: ip link set {name} master lan
{name}: ip route add default via 192.0.2.1
{name}: ip route add default via 2001:db8:12::1
"""


@contextmanager
def _nodes(names: Sequence[str], directory: Path) -> Iterator[list[Node]]:
    """Namespaces; at the end they are gone, and all that ran in them."""
    _take_down(_orphans(directory))
    nodes = [Node(f"{_PREFIX}{name}-{os.getpid()}", directory) for name in names]
    try:
        _batch("", [f"netns add {node.namespace}" for node in nodes])
        yield nodes
    finally:
        _take_down(nodes)


def _orphans(directory: Path) -> list[Node]:
    """The namespaces of runs that were killed."""
    names = [entry.name for entry in Path("/run/netns").glob(f"{_PREFIX}*")]
    return [Node(name, directory) for name in names if not Path(f"/proc/{name.rpartition('-')[2]}").exists()]


def _take_down(nodes: Sequence[Node]) -> None:
    # Nothing runs in homes: their sockets are the tests'.
    end_processes([node for node in nodes if not node.namespace.startswith(f"{_PREFIX}home")])
    for node in nodes:
        with suppress(CommandError):
            node.delete()


@contextmanager
def standing() -> Iterator[Fleet]:
    """Build all of it, and wait until all nodes are announced; whatever happens, take all of it down again."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fl-")))
        # For BIRD's user.
        directory.chmod(0o755)
        files = files_of_the_roles(directory)
        names = ["router", "switch", "origin", *NODES, *(f"home{number}" for number in range(1, HOMES + 1))]
        made = stack.enter_context(_nodes(names, directory))
        (router, switch, origin), nodes, of_homes = made[:3], made[3:6], made[6:]
        hosts = [Host(node.namespace, directory / name) for name, node in zip(NODES, nodes, strict=True)]
        gateways = {name: Gateway(name, host, switch, files[name]) for name, host in zip(NODES, hosts, strict=True)}
        homes = [Home(number, node) for number, node in enumerate(of_homes, 1)]
        for node in (router, switch, origin, *nodes):
            node.ip("link", "set", "lo", "up")
            node.set_congestion_control()
        wired = "".join(_GATEWAY.format(name=name, address=four, address6=six) for name, (four, six) in NODES.items())
        lay(_LAN + wired, dict(zip(names, made, strict=True)))
        routing = start_router(Host(router.namespace, directory / "router"))
        stack.enter_context(following(routing))
        for gateway in gateways.values():
            gateway.set_up()
            gateway.serve()
        _wire_links(router, homes)
        for home in homes:
            _wire_home(home)
        stack.enter_context(Origin(origin).listening(ECHO))
        pool = ThreadPoolExecutor(3 * HOMES)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        routing.wait_for(NODES, 40)
        yield Fleet(homes, routing, gateways, pool)
