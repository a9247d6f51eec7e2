"""Who is where around a home router, and what happens to its links.

                                  +==dsl==+
    device .2 ---- .1 router .2   +==lte==+   .1 internet .1 ---- .2 gateway    192.0.2.0/24
      192.168.77.0/24             +==sat==+            .1 ------- .2 server     203.0.113.0/24
                                   10.0.N.0/24

Each link is emulated (experiments/testbed/links.py), and its provider translates the router's address into one of its
own, 198.51.100.N: nobody on the Internet can begin to talk to the router.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.build import allow_subflows
from experiments.testbed.links import connect, kernel_has_netem
from experiments.testbed.node import Node, end_processes, run
from experiments.testbed.selfcheck import Reading, check_link
from experiments.testbed.topology import Link, Topology

LAN, ROUTER, DEVICE = "192.168.77.0/24", "192.168.77.1", "192.168.77.2"
LAN_SIDE = "lan"
GATEWAY, SERVER = "192.0.2.2", str(Topology.SERVER4)
PROVIDERS = "198.51.100.0/24"
"""The addresses that links have outside of their providers' networks."""
_NAMES = ("device", "router", "internet", "gateway", "server")
_PROVIDERS = """\
table ip providers {{
    chain middlebox {{
        type filter hook forward priority mangle; policy accept;
    }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname {{ "gateway", "server" }} snat to ip saddr map {{ {addresses} }}
    }}
}}
"""


@dataclass(frozen=True)
class Network:
    """The nodes by their names, the links between router and Internet, and a folder for files."""

    nodes: dict[str, Node]
    links: tuple[Link, ...]
    directory: Path
    netem: bool

    @property
    def device(self) -> Node:
        """A device of the LAN, which knows nothing of all this."""
        return self.nodes["device"]

    @property
    def router(self) -> Node:
        """The home router."""
        return self.nodes["router"]

    @property
    def internet(self) -> Node:
        """The providers of all links, and what is between them, the gateway and the server."""
        return self.nodes["internet"]

    @property
    def gateway(self) -> Node:
        """The gateway."""
        return self.nodes["gateway"]

    @property
    def server(self) -> Node:
        """A server that knows nothing of MPTCP."""
        return self.nodes["server"]

    @contextmanager
    def cut(self, link: Link) -> Iterator[None]:
        """The router's modem loses its line, and says so: the interface has no carrier."""
        node = self.nodes[link.node]
        node.ip("link", "set", "client", "down")
        try:
            yield
        finally:
            node.ip("link", "set", "client", "up")

    @contextmanager
    def silent(self, link: Link) -> Iterator[None]:
        """The link's provider drops all packets, and the router's interface knows nothing of that."""
        with self._middlebox(f"iifname {link.name} drop", f"oifname {link.name} drop"):
            yield

    @contextmanager
    def stripping(self, link: Link) -> Iterator[None]:
        """The link's provider takes MPTCP's option, number 30, out of all segments (nft(8))."""
        with self._middlebox(
            f"iifname {link.name} reset tcp option mptcp", f"oifname {link.name} reset tcp option mptcp"
        ):
            yield

    @contextmanager
    def _middlebox(self, *rules: str) -> Iterator[None]:
        for rule in rules:
            self.internet.run("nft", "add", "rule", "ip", "providers", "middlebox", *rule.split())
        try:
            yield
        finally:
            self.internet.run("nft", "flush", "chain", "ip", "providers", "middlebox")

    def lease(self, link: Link, host: int = 2, before: int | None = None) -> None:
        """Give the router this address on a link in place of the one ``before``, as a DHCP client does."""
        network = str(link.gateway4).rpartition(".")[0]
        if before is not None:
            self.router.ip("address", "delete", f"{network}.{before}/24", "dev", link.name)
        self.router.ip("address", "add", f"{network}.{host}/24", "dev", link.name)
        default = ("default", "via", str(link.gateway4), "dev", link.name, "metric", str(1023 + link.number))
        self.router.ip("route", "replace", *default)

    def check(self, tolerance: float) -> list[Reading]:
        """Measure every link; raises CommandError (exit 75) for one that is off by more than ``tolerance``."""
        return [
            each for link in self.links for each in check_link(link, self.router, self.internet, tolerance=tolerance)
        ]


@contextmanager
def standing_network(
    name: str, directory: Path, links: Sequence[Link], *, shaped: bool = True, seed: int = 0
) -> Iterator[Network]:
    """The nodes with cables, links and addresses, and nothing that runs; at the end they are gone.

    Not ``shaped``, the links are plain cables. Namespaces are called ``NAME-NODE``.
    """
    with ExitStack() as stack:
        names = (*_NAMES, *(link.node for link in links if shaped))
        nodes = {each: Node(f"{name}-{each}", directory) for each in names}
        made: list[Node] = []
        stack.callback(_take_down, made)
        for node in nodes.values():
            node.create()
            made.append(node)
        network = Network(nodes, tuple(links), directory, netem=shaped and kernel_has_netem())
        _lay(network)
        for link in links:
            _connect(network, link, shaped, seed)
        provide(network)
        yield network


def _take_down(nodes: list[Node]) -> None:
    end_processes(nodes)
    for node in nodes:
        node.delete()


def _lay(network: Network) -> None:
    """The cables that are no links, and which way packets go by them."""
    cables = (
        (network.device, "eth0", f"{DEVICE}/24", network.router, LAN_SIDE, f"{ROUTER}/24"),
        (network.gateway, "eth0", f"{GATEWAY}/24", network.internet, "gateway", "192.0.2.1/24"),
        (network.server, "eth0", f"{SERVER}/24", network.internet, "server", f"{Topology.CORE_GATEWAY4}/24"),
    )
    for node, interface, address, router, name, own in cables:
        cable(node, interface, address, router, name, own)
        node.ip("route", "add", "default", "via", own.partition("/")[0])
    for node in (network.router, network.internet, network.gateway):
        # Loose: an answer may come in over any link (ip-sysctl.rst, rp_filter).
        node.sysctl(net__ipv4__conf__all__rp_filter=2)
    network.internet.sysctl(net__ipv4__ip_forward=1)
    allow_subflows(network.gateway)
    network.server.sysctl(net__mptcp__enabled=0)


def cable(one: Node, name: str, address: str, other: Node, its_name: str, its_address: str) -> None:
    """``one``'s interface ``name`` and ``other``'s ``its_name``, connected; both are up, with their addresses."""
    ends = ["name", name, "netns", one.namespace, "type", "veth"]
    run(["ip", "link", "add", *ends, "peer", "name", its_name, "netns", other.namespace])
    for node, interface, own in ((one, name, address), (other, its_name, its_address)):
        node.ip("address", "add", own, "dev", interface)
        node.ip("link", "set", interface, "up")


def _connect(network: Network, link: Link, shaped: bool, seed: int) -> None:
    router, internet = network.router, network.internet
    if shaped:
        connect(link, router, network.nodes[link.node], internet, netem=network.netem, seed=seed)
        internet.ip("address", "add", f"{link.gateway4}/24", "dev", link.name)
    else:
        ends = ["name", link.name, "netns", router.namespace, "type", "veth"]
        run(["ip", "link", "add", *ends, "peer", "name", link.name, "netns", internet.namespace])
        internet.ip("address", "add", f"{link.gateway4}/24", "dev", link.name)
        for node in (router, internet):
            node.ip("link", "set", link.name, "up")
    network.lease(link)


def provide(network: Network) -> None:
    """Have the links' providers translate the router's addresses."""
    addresses = ", ".join(f"10.0.{link.number}.0/24 : 198.51.100.{link.number}" for link in network.links)
    rules = network.internet.write("providers.nft", _PROVIDERS.format(addresses=addresses))
    network.internet.run("nft", "--file", str(rules))
