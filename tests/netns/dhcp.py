"""A device that asks for an address (RFC 2131), and takes none."""

import random
import socket
import time

from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from experiments.testbed.node import Node
from tests.netns.world import socket_at


def offered(device: Node) -> str:
    """Who offers an address to whoever asks (RFC 2131), and in which network."""
    with socket_at(device, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as asking:
        asking.bind(("eth0", 0x0800))
        asking.settimeout(1)
        mac = asking.getsockname()[4]
        number = random.getrandbits(32)
        asking.send(
            bytes(
                Ether(src=mac, dst="ff:ff:ff:ff:ff:ff")
                / IP(src="0.0.0.0", dst="255.255.255.255")
                / UDP(sport=68, dport=67)
                / BOOTP(chaddr=mac, xid=number, flags=0x8000)
                / DHCP(options=[("message-type", "discover"), "end"])
            )
        )
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            try:
                frame = Ether(asking.recv(1514))
            except TimeoutError:
                continue
            if BOOTP in frame and frame[BOOTP].op == 2 and frame[BOOTP].xid == number:
                return f"{frame[IP].src} {frame[BOOTP].yiaddr.rpartition('.')[0]}."
    return ""
