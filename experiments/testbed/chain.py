"""A path with native converters on it, which take over the connections that pass, or are asked for them (split TCP).

    client --segment1-- proxy1 --segment2-- proxy2 -- ... --segmentN-- server       203.0.113.2 on the server's lo

Every segment is a link of its own (links.py), numbered from 1; its left end is 10.0.NUMBER.2, its right end
10.0.NUMBER.1. Packets of the client's go to the server through all nodes; netfilter gives the proxies those to PORT.
With 0-RTT Convert the client asks proxy1 at CONVERT_PORT instead, which asks proxy2, and so on; every SYN brings data.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise, zip_longest
from pathlib import Path

from experiments.testbed import converter
from experiments.testbed.build import reserved
from experiments.testbed.links import connect
from experiments.testbed.network import lay, standing_nodes
from experiments.testbed.node import Node, Process
from experiments.testbed.topology import CLIENT, SERVER, Direction, Link, Topology
from tributary.settings.units import Duration

PORT, CONVERT_PORT = 8080, 5124


class By(Enum):
    """How the proxies come to their connections."""

    DIRECT = "direct"
    """There is none."""
    LATE = "handshake first"
    """By TPROXY; each connects when the handshake before it has ended."""
    EARLY = "early SYN"
    """By TPROXY; each connects when the SYN comes."""
    ZERO_RTT = "0-RTT Convert"
    """By RFC 8803, the client's data and each request in the SYN (RFC 7413)."""


_FAST_OPEN = 0x1 | 0x2 | 0x4 | 0x200 | 0x400
"""net.ipv4.tcp_fastopen: data in SYNs both ways, on every listener, with no cookie, as if all had met before."""

# The client's segment alone is a client's; those behind it have the addresses of the proxies before.
_CLIENTS = "10.0.0.0/16"
# What the kernel learnt of a path from one transfer must not change the next (ip-sysctl.rst).
_NODE = """
{name}: sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv4.conf.all.rp_filter=2 net.ipv4.ip_forward=1
{name}: sysctl -qw net.ipv4.tcp_fastopen={fast_open}
"""
_SEGMENT = """
{left}: ip address add {segment.client4}/24 dev {segment.name}
{left}: ip route add default via {segment.gateway4}
{right}: ip address add {segment.gateway4}/24 dev {segment.name}
"""
_TPROXY = """\
table inet intercept {{ chain prerouting {{
    type filter hook prerouting priority mangle;
    iifname "{interface}" tcp dport {port} tproxy to :{port} meta mark set 1 accept;
}}; }}
"""


@dataclass(frozen=True)
class Chain:
    """A chain that stands: its ``nodes`` from the client to the server, and the segments between them."""

    directory: Path
    nodes: tuple[Node, ...]
    segments: tuple[Link, ...]

    @property
    def client(self) -> Node:
        return self.nodes[0]

    @property
    def proxies(self) -> tuple[Node, ...]:
        return self.nodes[1:-1]

    @property
    def server(self) -> Node:
        return self.nodes[-1]

    @contextmanager
    def converting(self, by: By, at: Collection[int] | None = None, *, kept: bool = False) -> Iterator[None]:
        """A converter on every proxy, or ``at`` these alone, for the length of the block; on none with DIRECT.

        ``kept``: with 0-RTT Convert, connections between them carry one transfer after another, and keep their windows.
        """
        numbers = [] if by is By.DIRECT else sorted(at or range(1, 1 + len(self.proxies)))
        with ExitStack() as stack:
            for number, following in zip_longest(numbers, numbers[1:]):
                stack.enter_context(self._converter(number, following, by, kept))
            yield

    def convert(self, number: int) -> str:
        """Where this proxy can be asked by 0-RTT Convert: its address and port."""
        return f"{self.segments[number - 1].gateway4}:{CONVERT_PORT}"

    def _converter(self, number: int, following: int | None, by: By, kept: bool) -> Process:
        name, proxy = f"converter{number}", self.proxies[number - 1]
        proxy.sysctl(net__ipv4__tcp_slow_start_after_idle=int(not kept))
        tables: dict[str, dict[str, object]] = {}
        if by is By.ZERO_RTT:
            listener = {"kind": "convert", "address": f"[::]:{CONVERT_PORT}", "via_gateway": following is not None}
            tables["upstream"] = {"fast_open": True}
        else:
            address = f"[::]:{PORT}"
            early = by is By.EARLY
            listener = {"kind": "transparent", "address": address, "intercept": "tproxy", "early_syn": early}
        if by is By.ZERO_RTT and following is not None:
            how = {"mptcp": False, "fallback": "refuse", "fast_open": True, "reuse": kept}
            tables["gateway"] = {"address": self.convert(following), **how}
        return converter.start(proxy, name, converter.settings(proxy, name, (_CLIENTS,), listener, **tables))


def split(link: Link, parts: int) -> tuple[Link, ...]:
    """``link`` as so many segments in a row: each with its rates and queues, and an equal part of its delay."""
    return tuple(
        Link.numbered(f"segment{number}", number, _part(link.down, parts), _part(link.up, parts))
        for number in range(1, parts + 1)
    )


def _part(whole: Direction, parts: int) -> Direction:
    delay, jitter = (Duration(round(each.amount / parts)) for each in (whole.delay, whole.jitter))
    return replace(whole, delay=delay, jitter=jitter)


@contextmanager
def standing_chain(name: str, segments: Sequence[Link], seed: int) -> Iterator[Chain]:
    """A chain for the length of the block; raises CommandError: exit 75 if a testbed of this name stands already."""
    names = (CLIENT, *(f"proxy{number}" for number in range(1, len(segments))), SERVER)
    network = "".join(f"{each}:\n" for each in (*(segment.node for segment in segments), *names))
    network += "".join(_NODE.format(name=each, fast_open=_FAST_OPEN) for each in names)
    with reserved(name) as directory, standing_nodes(f"trib-{name}-", network, directory) as made:
        nodes = tuple(made[each] for each in names)
        for segment, (left, right) in zip(segments, pairwise(names), strict=True):
            connect(segment, made[left], made[segment.node], made[right], seed)
            lay(_SEGMENT.format(left=left, right=right, segment=segment), made)
        for segment, node in zip(segments, nodes[1:-1], strict=False):
            intercept(node, segment.name)
        nodes[-1].ip("address", "add", f"{Topology.SERVER4}/32", "dev", "lo")
        for number, node in enumerate(nodes[2:], start=2):
            for before in segments[: number - 1]:
                node.ip("route", "add", str(before.networks[0]), "via", str(segments[number - 1].client4))
        yield Chain(directory, nodes, tuple(segments))


def intercept(node: Node, interface: str) -> None:
    """What comes in by ``interface`` for PORT is for who listens there, whatever its address is (tproxy in nft(8)).

    As long as nobody does, it is forwarded.
    """
    node.run("nft", _TPROXY.format(interface=interface, port=PORT))
    node.batch(["rule add fwmark 1 lookup 100", "route add local default dev lo table 100"])
