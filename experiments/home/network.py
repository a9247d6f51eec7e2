"""Who is where around a home router, and what happens to its links.

                                  +==dsl==+
    device .2 ---- .1 router .2   +==lte==+   .1 internet .1 ---- .2 gateway    192.0.2.0/24
      192.168.77.0/24             +==sat==+            .1 ------- .2 server     203.0.113.0/24
                                   10.0.N.0/24

Each link is emulated (experiments/testbed/links.py), and its provider translates the router's address into one of its
own, 198.51.100.N: nobody on the Internet can begin to talk to the router.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.build import allow_subflows
from experiments.testbed.links import connect
from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from experiments.testbed.selfcheck import Reading, check_link
from experiments.testbed.server import start_origin
from experiments.testbed.topology import Link, Topology

LAN, ROUTER, DEVICE = "192.168.77.0/24", "192.168.77.1", "192.168.77.2"
LAN_SIDE = "lan"
GATEWAY, SERVER = "192.0.2.2", str(Topology.SERVER4)
PROVIDERS = "198.51.100.0/24"
"""The addresses that links have outside of their providers' networks."""
PORTS = (80, 443, 27015, 22)
"""Of the web, of the encrypted web, of a game, of SSH."""
CALL_PORT = 5060
"""UDP."""
# Loose: an answer may come in over any link (ip-sysctl.rst, rp_filter).
_NETWORK = f"""
device:eth0 {DEVICE}/24 -- router:{LAN_SIDE} {ROUTER}/24
gateway:eth0 {GATEWAY}/24 -- internet:gateway 192.0.2.1/24
server:eth0 {SERVER}/24 -- internet:server {Topology.CORE_GATEWAY4}/24
device: ip route add default via {ROUTER}
gateway: ip route add default via 192.0.2.1
server: ip route add default via {Topology.CORE_GATEWAY4}
router internet gateway: sysctl -qw net.ipv4.conf.all.rp_filter=2
internet: sysctl -qw net.ipv4.ip_forward=1
server: sysctl -qw net.mptcp.enabled=0
"""
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
    """The nodes by their names, but for what is a machine of its own; the links between router and Internet, and a
    folder for files.
    """

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    directory: Path

    @property
    def device(self) -> Node:
        return self.nodes["device"]

    @property
    def router(self) -> Node:
        return self.nodes["router"]

    @property
    def internet(self) -> Node:
        """The providers of all links, and what is between them, the gateway and the server."""
        return self.nodes["internet"]

    @property
    def gateway(self) -> Node:
        return self.nodes["gateway"]

    @property
    def server(self) -> Node:
        return self.nodes["server"]

    def cut(self, link: Link) -> AbstractContextManager[None]:
        """The router's modem loses its line, and says so: the interface has no carrier."""
        return self.nodes[link.node].without("client")

    def silent(self, link: Link) -> AbstractContextManager[None]:
        """The link's provider drops all packets, and the router's interface knows nothing of that."""
        return self._middlebox(link, "drop")

    def stripping(self, link: Link) -> AbstractContextManager[None]:
        """The link's provider takes MPTCP's option, number 30, out of all segments (nft(8))."""
        return self._middlebox(link, "reset tcp option mptcp")

    @contextmanager
    def _middlebox(self, link: Link, does: str) -> Iterator[None]:
        """What it ``does``, as nft(8) has it, with all that the link carries."""
        for way in ("iifname", "oifname"):
            self.internet.run("nft", "add", "rule", "ip", "providers", "middlebox", way, link.name, *does.split())
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

    Not ``shaped``, the links are plain cables. Namespaces are called ``NAME-NODE-PID``.
    """
    ways = (f"{link.node}:" if shaped else f"router:{link.name} -- internet:{link.name}" for link in links)
    with standing_nodes(f"{name}-", "\n".join([_NETWORK, *ways]), directory) as nodes:
        network = Network(nodes, tuple(links), directory)
        allow_subflows(network.gateway)
        for link in links:
            if shaped:
                connect(link, network.router, nodes[link.node], network.internet, seed)
            network.internet.ip("address", "add", f"{link.gateway4}/24", "dev", link.name)
            network.lease(link)
        provide(network)
        yield network


def provide(network: Network) -> None:
    """Have the links' providers translate the router's addresses."""
    addresses = ", ".join(f"10.0.{link.number}.0/24 : 198.51.100.{link.number}" for link in network.links)
    rules = network.internet.write("providers.nft", _PROVIDERS.format(addresses=addresses))
    network.internet.run("nft", "--file", str(rules))


@contextmanager
def serving(server: Node) -> Iterator[None]:
    """All of it, for the length of the block; every byte of a download is known (tributary-load)."""
    with ExitStack() as stack:
        for port in PORTS:
            stack.enter_context(start_origin(server, f"{SERVER}:{port}"))
        stack.enter_context(server.probe("call", "answer", SERVER, str(CALL_PORT), name="mirror"))
        yield
