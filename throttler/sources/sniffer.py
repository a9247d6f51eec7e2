"""The Scapy source: one packet socket per client-side interface, with the capture filter in the kernel."""

import errno
import socket
import struct
from collections.abc import Iterator

from scapy.arch.linux import L2ListenSocket
from scapy.config import conf
from scapy.data import ETH_P_ALL
from scapy.error import Scapy_Exception
from scapy.layers.inet6 import IPv46

from throttler.sources.dissect import segment
from throttler.sources.reorder import Captured, monotonic
from tributary.settings.errors import CommandError, Exit
from tributary.wire import capture_filter

_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/socket.h, linux/if_packet.h
_BUFFER = 4 * 2**20
"""Bytes of the socket's queue: some thousands of handshake packets."""
_NO_PROTOCOL = 0
_NO_LINK_LAYER = 0xFFFE
"""ARPHRD_NONE of linux/if_arp.h: packets of WireGuard and tun begin with IP."""

conf.l2types.register_num2layer(_NO_LINK_LAYER, IPv46)


class Sniffer:
    """Captures packets on one interface, in both directions.

    ``unreadable`` counts packets that could not be parsed.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self.unreadable = 0
        self._passed = 0
        self._dropped = 0
        try:
            # Bound without a protocol a packet socket gets nothing (packet(7)): so no packet is queued unfiltered.
            self._scapy = L2ListenSocket(iface=interface, type=_NO_PROTOCOL, promisc=False)
            self._socket: socket.socket = self._scapy.ins
            capture_filter.attach(self._socket, capture_filter.pack(capture_filter.program()))
            # Beyond net.core.rmem_max, which root may.
            self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _BUFFER)
            self._socket.setblocking(False)
            self._socket.bind((interface, ETH_P_ALL))
        except (OSError, Scapy_Exception) as error:
            raise CommandError(Exit.SYSTEM, f"cannot capture on {interface}: {error}") from error

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop capturing."""
        self._scapy.close()

    def packets(self, most: int, wall: int, now: int) -> Iterator[Captured]:
        """The queued packets, at most ``most``; none when the interface is gone. Raises CommandError.

        ``wall`` is the time of the packets' clock, ``now`` of the monotonic one, in nanoseconds.
        """
        for _ in range(most):
            try:
                # recv_raw, its public sibling, does not say whether the packet came or went.
                data, address, time = self._scapy._recv_raw(self._socket, capture_filter.SNAP)
            except BlockingIOError:
                return
            except OSError as error:
                # Reported once when the link goes down or disappears.
                if error.errno not in (errno.ENETDOWN, errno.ENODEV, errno.ENXIO):
                    raise CommandError(Exit.SYSTEM, f"cannot capture on {self.interface}: {error.strerror}") from error
                return
            outgoing = address[2] == socket.PACKET_OUTGOING
            captured = monotonic(round(time * 10**9), wall, now)
            found = segment(data, self._scapy.LL, captured, self.interface, outgoing)
            self.unreadable += found is None
            yield captured, found

    def counts(self) -> dict[str, int]:
        """Packets since the start: passed by the filter, dropped by a full queue, and unreadable."""
        # struct tpacket_stats: packets, with those dropped, and drops; reading it sets both to zero (packet(7)).
        passed, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        self._passed += passed
        self._dropped += dropped
        return {"passed": self._passed, "dropped": self._dropped, "unreadable": self.unreadable}
