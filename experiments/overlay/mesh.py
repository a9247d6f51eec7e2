"""Namespaces for the nodes of an overlay, a link between every two of them, a client and a server.

    client --cable-- node1 ==== every node is linked to every other ==== nodeN --cable-- server
    10.80.1.2        10.80.0.1                                       10.80.0.N       203.0.113.2

Each link is one of a testbed's (testbed/links.py), with the round-trip time of its two nodes. Packets take the link of
the two nodes that they are between; the server is behind the last node, the client behind the first. Every node and the
client also have a cable without delay to `control` (10.80.2.254), for what agents and controllers say to etcd.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from experiments.testbed.build import reserved
from experiments.testbed.links import connect, set_delay
from experiments.testbed.network import lay, standing_nodes
from experiments.testbed.node import Node
from experiments.testbed.topology import NO_DELAY, NO_LOSS, Direction, Link, Topology
from tributary.settings.units import Duration, PositiveRate

MOST_NODES = 16
"""120 links, each with an emulator of its own where the kernel has no netem."""
SERVER = str(Topology.SERVER4)
SERVERS = "203.0.113.0/24"
NODES, CLIENTS = "10.80.0.0/24", "10.80.1.0/24"
INGRESS, CONTROL = "10.80.1.1", "10.80.2.254"
_SERVER_ROUTER = str(Topology.CORE_GATEWAY4)
_CLIENT, _CLIENT_CONTROL = "10.80.1.2", "10.80.2.253"
# What the kernel learnt of a path from one transfer must not change the next (ip-sysctl.rst).
_NETWORK = f"""
*: sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv4.conf.all.rp_filter=2
node1 node{{last}}: sysctl -qw net.ipv4.ip_forward=1
client:client {_CLIENT}/24 -- node1:client {INGRESS}/24
server:server {SERVER}/24 -- node{{last}}:server {_SERVER_ROUTER}/24
client: ip route add default via {INGRESS}
server: ip route add default via {_SERVER_ROUTER}
control: ip link add bridge up type bridge forward_delay 0
control: ip address add {CONTROL}/24 dev bridge
client:control {_CLIENT_CONTROL}/24 -- control:client
control: ip link set client master bridge
"""
_NODE = """
node{number}: ip address add 10.80.0.{number}/32 dev lo
node{number}:control 10.80.2.{number}/24 -- control:port{number}
control: ip link set port{number} master bridge
"""
_RATE, _QUEUE = PositiveRate(100_000_000), 1000  # as much as an emulator carries beside many others; packets


@dataclass(frozen=True)
class Mesh:
    """The namespaces that stand: those of the overlay's nodes by the nodes' names, in their order.

    ``between`` is the node of each link, by the numbers of its two ends, the lower one first.
    """

    directory: Path
    nodes: Mapping[str, Node]
    between: Mapping[tuple[int, int], Node]
    client: Node
    server: Node
    control: Node

    def address(self, name: str) -> str:
        return f"10.80.0.{self._number(name)}"

    @property
    def links(self) -> int:
        return len(self.between)

    def join(self, low: int, high: int, round_trip_ms: float) -> None:
        nodes, between = [*self.nodes.values()], self.between[low, high]
        link = self._link(low, high, round_trip_ms)
        connect(link, nodes[low - 1], between, nodes[high - 1], seed=0)
        for here, there in ((low, high), (high, low)):
            own, other = (f"10.80.0.{each}" for each in (here, there))
            nodes[here - 1].ip("route", "add", other, "dev", link.name, "src", own)

    def _set_round_trip(self, one: str, other: str, milliseconds: float) -> None:
        low, high = sorted(map(self._number, (one, other)))
        set_delay(self._link(low, high, milliseconds), self.between[low, high])

    @contextmanager
    def grown(self, one: str, other: str, before: float, during: float) -> Iterator[None]:
        """The link between two nodes has another round-trip time for the length of the block, in milliseconds."""
        self._set_round_trip(one, other, during)
        yield
        self._set_round_trip(one, other, before)

    def _number(self, name: str) -> int:
        return [*self.nodes].index(name) + 1

    def _link(self, low: int, high: int, round_trip_ms: float) -> Link:
        delay = Duration(round(round_trip_ms * 1000 / 2))
        way = Direction(_RATE, delay, NO_DELAY, NO_LOSS, _QUEUE, trace=None)
        number = [*self.between].index((low, high)) + 1
        return Link.numbered(f"to{low}-{high}", number, down=way, up=way)


@contextmanager
def standing_mesh(name: str, nodes: Sequence[str], round_trip_ms: Sequence[Sequence[float]]) -> Iterator[Mesh]:
    """A mesh for the length of the block, with the round-trip times from each of ``nodes`` to each.

    Raises CommandError: exit 75 if a testbed of this name stands already.
    """
    last, pairs = len(nodes), list(combinations(range(1, 1 + len(nodes)), 2))
    network = _NETWORK.format(last=last) + "".join(_NODE.format(number=number) for number in range(1, 1 + last))
    network += "".join(f"link{low}-{high}:\n" for low, high in pairs)
    with reserved(name) as directory, standing_nodes(f"trib-{name}-", network, directory) as made:
        numbered = {node: made[f"node{number}"] for number, node in enumerate(nodes, start=1)}
        between = {(low, high): made[f"link{low}-{high}"] for low, high in pairs}
        client, server, control = (made[each] for each in ("client", "server", "control"))
        mesh = Mesh(directory, numbered, between, client, server, control)
        for low, high in pairs:
            mesh.join(low, high, round_trip_ms[low - 1][high - 1])
        ways = [f"node{last}: ip route add {CLIENTS} via 10.80.0.1 dev to1-{last} onlink"]
        for number in range(1, last):
            ways.append(f"node{number}: ip route add {SERVERS} via 10.80.0.{last} dev to{number}-{last} onlink")
        lay("\n".join(ways), made)
        yield mesh
