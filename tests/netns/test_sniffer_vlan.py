"""Which frames of a link with VLANs on it are its own: the kernel takes a tag off before a packet socket's filter."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet

from experiments.testbed.network import standing_nodes
from experiments.testbed.node import Node
from tests.netns.world import eventually, socket_at
from throttler.sources.sniffer import Sniffer

NETWORK = "client:wired 10.0.0.2/24 -- gateway:wired 10.0.0.1/24"
ETHER = Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:02")
BELOW: dict[int, Packet] = {
    2: ETHER / Dot1Q(vlan=5),
    3: ETHER / Dot1Q(vlan=0, prio=6),
    4: ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=5),
    1: ETHER,
}
"""What is below IP, by the source port of the SYN above it."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[str, Node]]:
    with standing_nodes("vlan-", NETWORK, tmp_path) as made:
        yield made


def test_a_vlans_frames_are_not_the_links_own_but_those_with_a_priority_alone_are(nodes: dict[str, Node]) -> None:
    with nodes["gateway"].entered():
        sniffer = Sniffer("wired")
    with closing(sniffer), socket_at(nodes["client"], socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("wired", 0))
        for port, below in BELOW.items():
            sender.send(bytes(below / IP(src="10.0.0.2", dst="10.0.0.1") / TCP(sport=port, dport=80)))
        assert came(sniffer) == [3, 1]


def came(sniffer: Sniffer) -> list[int]:
    """The source ports of the SYNs that are captured until that of port 1."""
    found: list[int] = []

    def last() -> bool:
        for _, segment in sniffer.packets(64, time.time_ns(), time.monotonic_ns()):
            found.append(segment.source_port if segment else 0)
        return 1 in found

    eventually(last)
    return found
