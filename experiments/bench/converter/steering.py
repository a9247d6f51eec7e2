"""Receive packet steering on the cables, for uploads and all that goes both ways.

A veth interface hands a packet over on the sender's processor. A gateway's recvmsg() then often holds the MPTCP socket
while packets come in: TCP acknowledges them, MPTCP's own acknowledgement (DATA_ACK, RFC 8684 section 3.3.1) has to
wait, and when the sender has used its whole window by then, nobody sends that acknowledgement. The sender waits for its
MPTCP timer, 200 ms each time; ``MPTcpExtMPTCPRetrans`` counts it there. That is the kernel's fault (seen with Linux
6.18), at round trips far below a millisecond alone: without steering every proxy's uploads read 100 to 10,000 Mbit/s,
by chance, and say nothing of the proxy. With it (Documentation/networking/scaling.rst, RPS) one processor takes what
the client's end gets and another one what all others get, for every contender alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, SERVER_SIDE
from experiments.testbed.node import Node

_WRITE = 'echo "$1" > "/sys/class/net/$0/queues/rx-0/rps_cpus"'
_OFF = "0"
_GROUP = 32
"""Processors that one comma-separated number of a mask stands for."""


@contextmanager
def steered(testbed: Testbed, processors: Sequence[int]) -> Iterator[None]:
    """For the length of the block the first of ``processors`` takes what comes to the client, the last one the rest."""
    client, others = mask(processors[0]), mask(processors[-1])
    try:
        _steer(testbed.client, CLIENT_SIDE, client)
        for node, device in _other_ends(testbed):
            _steer(node, device, others)
        yield
    finally:
        for node, device in ((testbed.client, CLIENT_SIDE), *_other_ends(testbed)):
            _steer(node, device, _OFF)


def mask(processor: int) -> str:
    """The one processor as the kernel reads it: hexadecimal, a comma before each 32 bits (bitmap_parse())."""
    group, bit = divmod(processor, _GROUP)
    return ",".join([f"{1 << bit:x}", *["0" * (_GROUP // 4)] * group])


def _other_ends(testbed: Testbed) -> tuple[tuple[Node, str], ...]:
    gateway, server = testbed.gateway, testbed.server
    return (gateway, CLIENT_SIDE), (gateway, SERVER_SIDE), (server, SERVER_SIDE)


def _steer(node: Node, device: str, processors: str) -> None:
    node.run("sh", "-c", _WRITE, device, processors)
