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

from experiments.testbed.build import reserved, take_down
from experiments.testbed.links import connect, kernel_has_netem, set_delay
from experiments.testbed.node import Node, run
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
    netem: bool

    def address(self, name: str) -> str:
        """Where the node of this name is."""
        return f"10.80.0.{self._number(name)}"

    @property
    def links(self) -> int:
        """How many there are."""
        return len(self.between)

    def join(self, low: int, high: int, round_trip_ms: float) -> None:
        """Link two nodes, by their numbers."""
        nodes, between = [*self.nodes.values()], self.between[low, high]
        link = self._link(low, high, round_trip_ms)
        between.create()
        connect(link, nodes[low - 1], between, nodes[high - 1], netem=self.netem, seed=0)
        for here, there in ((low, high), (high, low)):
            own, other = (f"10.80.0.{each}" for each in (here, there))
            nodes[here - 1].ip("route", "add", other, "dev", link.name, "src", own)

    def set_round_trip(self, one: str, other: str, milliseconds: float) -> None:
        """Give the link between two nodes another round-trip time."""
        low, high = sorted(map(self._number, (one, other)))
        set_delay(self._link(low, high, milliseconds), self.between[low, high], netem=self.netem)

    def _number(self, name: str) -> int:
        return [*self.nodes].index(name) + 1

    def _link(self, low: int, high: int, round_trip_ms: float) -> Link:
        delay = Duration(round(round_trip_ms * 1000 / 2))
        way = Direction(_RATE, delay, NO_DELAY, NO_LOSS, _QUEUE, trace=None)
        number = [*self.between].index((low, high)) + 1
        return Link(f"to{low}-{high}", number, down=way, up=way)


@contextmanager
def standing_mesh(name: str, nodes: Sequence[str], round_trip_ms: Sequence[Sequence[float]]) -> Iterator[Mesh]:
    """A mesh for the length of the block, with the round-trip times from each of ``nodes`` to each.

    Raises CommandError: exit 75 if a testbed of this name stands already.
    """
    with reserved(name) as directory:

        def namespace(each: str) -> Node:
            return Node(f"trib-{name}-{each}", directory)

        numbered = {node: namespace(f"node{number}") for number, node in enumerate(nodes, start=1)}
        pairs = combinations(range(1, len(nodes) + 1), 2)
        between = {pair: namespace(f"link{number}") for number, pair in enumerate(pairs, start=1)}
        client, server, control = (namespace(each) for each in ("client", "server", "control"))
        mesh = Mesh(directory, numbered, between, client, server, control, netem=kernel_has_netem())
        _build(mesh, round_trip_ms)
        yield mesh
        take_down(name)


def _build(mesh: Mesh, round_trip_ms: Sequence[Sequence[float]]) -> None:
    nodes = [*mesh.nodes.values()]
    ingress, egress = nodes[0], nodes[-1]
    for node in (*nodes, mesh.client, mesh.server, mesh.control):
        node.create()
        # What the kernel learnt of a path from one transfer must not change the next (ip-sysctl.rst).
        node.sysctl(net__ipv4__tcp_no_metrics_save=1, net__ipv4__conf__all__rp_filter=2)
    for number, node in enumerate(nodes, start=1):
        node.ip("address", "add", f"10.80.0.{number}/32", "dev", "lo")
    for low, high in mesh.between:
        mesh.join(low, high, round_trip_ms[low - 1][high - 1])
    for node in (ingress, egress):
        node.sysctl(net__ipv4__ip_forward=1)
    _cable(mesh.client, ingress, "client", f"{_CLIENT}/24", f"{INGRESS}/24")
    _cable(mesh.server, egress, "server", f"{SERVER}/24", f"{_SERVER_ROUTER}/24")
    mesh.client.ip("route", "add", "default", "via", INGRESS)
    mesh.server.ip("route", "add", "default", "via", _SERVER_ROUTER)
    for number, node in enumerate(nodes[:-1], start=1):
        node.ip("route", "add", SERVERS, "via", f"10.80.0.{len(nodes)}", "dev", f"to{number}-{len(nodes)}", "onlink")
    egress.ip("route", "add", CLIENTS, "via", "10.80.0.1", "dev", f"to1-{len(nodes)}", "onlink")
    _join_control(mesh)


def _cable(one: Node, other: Node, name: str, one_address: str, other_address: str) -> None:
    ends = ["name", name, "netns", one.namespace, "type", "veth", "peer", "name", name, "netns", other.namespace]
    run(["ip", "link", "add", *ends])
    for node, address in ((one, one_address), (other, other_address)):
        node.ip("address", "add", address, "dev", name)
        node.ip("link", "set", name, "up")


def _join_control(mesh: Mesh) -> None:
    control = mesh.control
    control.ip("link", "add", "bridge", "type", "bridge", "forward_delay", "0")
    control.ip("address", "add", f"{CONTROL}/24", "dev", "bridge")
    control.ip("link", "set", "bridge", "up")
    numbered = {f"10.80.2.{number}": node for number, node in enumerate(mesh.nodes.values(), start=1)}
    for count, (address, node) in enumerate({**numbered, _CLIENT_CONTROL: mesh.client}.items(), start=1):
        ends = ["name", "control", "netns", node.namespace, "type", "veth"]
        run(["ip", "link", "add", *ends, "peer", "name", f"port{count}", "netns", control.namespace])
        control.ip("link", "set", f"port{count}", "master", "bridge", "up")
        node.ip("address", "add", f"{address}/24", "dev", "control")
        node.ip("link", "set", "control", "up")
