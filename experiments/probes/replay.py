"""Plays handshakes of MPTCP subflows on the wire, as fast as the throttler beside it holds them.

    python -m experiments.probes.replay INTERFACE CLIENT_NAMESPACE SUBFLOWS BY_SESSION BY_CLIENT

Runs on the gateway. The clients' frames go out of the client's end of the cable, the listener's out of the gateway's
own, to addresses that no socket owns: so nobody else answers. Never more than a window of subflows is on its way, by
nftables' own notifications of new elements, so that no packet is dropped before the throttler. Prints one JSON object:

    {"subflows": COUNT, "install_s": SECONDS FROM THE FIRST FRAME TO THE LAST ELEMENT}

It ends early, with as many as there are, when no element has come for a while.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from experiments.probes.handshake_frames import Ends, Subflow, subflows
from experiments.probes.nft_events import new_subflows, notifications
from experiments.testbed.node import Node
from tributary.kernel.netlink import Netlink

_WINDOW = 500
"""Subflows, of three frames each, that the throttler need not have held yet: its sockets queue some thousands."""
_STALLED = 20.0
"""Seconds without a new element after which none is expected any more."""
_FIRST_CLIENT, _LISTENER, _PORT = IPv4Address("10.64.0.1"), IPv4Address("10.128.0.1"), 3128


def main(interface: str, client_namespace: str, *counts: str) -> None:
    """Play so many subflows, so many of them a session and a client."""
    gateway = _wire(interface)
    with notifications() as installs:
        with Node(client_namespace, Path()).entered():
            client = _wire(interface)
        ends = Ends(_mac(client), _mac(gateway), _FIRST_CLIENT, _LISTENER, _PORT)
        # All made before the first is sent: making them takes as long as a quick throttler takes for them.
        played = list(subflows(ends, *map(int, counts)))
        count, seconds = _play(played, client, gateway, installs)
    print(json.dumps({"subflows": count, "install_s": seconds}))


def _wire(interface: str) -> socket.socket:
    """A socket that sends, and takes in nothing (packet(7): no protocol)."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind((interface, 0))
    return wire


def _mac(wire: socket.socket) -> bytes:
    address: bytes = wire.getsockname()[4]
    return address


def _play(
    played: Sequence[Subflow], client: socket.socket, gateway: socket.socket, installs: Netlink
) -> tuple[int, float]:
    """How many subflows got an element, and after how many seconds the last one did."""
    start = time.monotonic()
    arrivals = _Arrivals(installs)
    for sent, subflow in enumerate(played):
        if not arrivals.wait_for(sent - _WINDOW + 1):
            break
        client.send(subflow.syn)
        gateway.send(subflow.syn_ack)
        client.send(subflow.ack)
    else:
        arrivals.wait_for(len(played))
    return arrivals.count, arrivals.last - start


class _Arrivals:
    """Counts new elements; ``last`` is the monotonic time at which the last of them was told."""

    def __init__(self, installs: Netlink) -> None:
        self._installs = installs
        self.count = 0
        self.last = time.monotonic()

    def wait_for(self, count: int) -> bool:
        """Wait until ``count`` elements have come; returns False if none has come for _STALLED seconds."""
        while self.count < count:
            if not select.select([self._installs], [], [], _STALLED)[0]:
                return False
            for datagram in self._installs.queued("notifications"):
                if datagram is None:
                    sys.exit("notifications were lost: the count would be wrong")
                if found := sum(1 for _ in new_subflows(datagram)):
                    self.count, self.last = self.count + found, time.monotonic()
        return True


if __name__ == "__main__":
    main(*sys.argv[1:])
