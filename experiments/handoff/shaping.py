"""Links of one rate in a hand-off's network, by htb(8) at both ends of every cable."""

from collections.abc import Iterator

from experiments.handoff.network import Network
from experiments.testbed.node import Node

_BURST = 64 << 10
"""Bytes: a segment as large as the kernel makes them leaves at once, and no more than that."""
_QUEUE = 1_000_000
"""Bytes that wait at an end of a link."""


def shape(network: Network, rate: int, clients_links: int) -> None:
    """Links of ``rate`` bit/s to the front and to each back end; the client has so many of them, bonded to one."""
    for name in ("client", "front", *network.back_ends):
        of_this = rate * (clients_links if name == "client" else 1)
        for node, device in ((network.nodes["switch"], f"to-{name}"), (network.nodes[name], "eth0")):
            _limit(node, device, of_this)


def _limit(node: Node, device: str, rate: int) -> None:
    for words in commands(device, rate):
        node.run("tc", *words.split())


def commands(device: str, rate: int) -> Iterator[str]:
    """What tc(8) is told so that no more than ``rate`` bit/s leave by ``device``. Pure."""
    yield f"qdisc replace dev {device} root handle 1: htb default 1"
    yield (
        f"class replace dev {device} parent 1: classid 1:1"
        f" htb rate {rate}bit ceil {rate}bit burst {_BURST} cburst {_BURST} quantum {_BURST}"
    )
    yield f"qdisc replace dev {device} parent 1:1 handle 2: bfifo limit {_QUEUE}"
