"""Scapy's packet sockets, one per client-side interface, with the capture filter in the kernel; and their order."""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from scapy.arch.linux import L2ListenSocket
from scapy.config import conf
from scapy.data import ETH_P_ALL
from scapy.error import Scapy_Exception
from scapy.layers.inet6 import IPv46

from throttler.sources.dissect import segment
from tributary.kernel import bpf
from tributary.settings.errors import CommandError, Exit
from tributary.wire import capture_filter
from tributary.wire.segments import Segment

_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/socket.h, linux/if_packet.h
_BUFFER = 4 * 2**20
"""Bytes of the socket's queue: some thousands of handshake packets."""
_NO_PROTOCOL = 0
_NO_LINK_LAYER = 0xFFFE
"""ARPHRD_NONE of linux/if_arp.h: packets of WireGuard and tun begin with IP."""

_SET, _AHEAD = 30 * 10**9, 10**9
"""Nanoseconds: a packet that seems to be older, or farther in the future, was stamped before the clock was set. It may
have come after the clocks were read; but the loop does not rest before what lies in the future is due.
"""

Captured = tuple[int, Segment | None]
"""A packet's capture time, by the monotonic clock, and its segment, None if it is unreadable."""

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
            bpf.attach(self._socket, bpf.pack(capture_filter.program()))
            # Beyond net.core.rmem_max, which root may.
            self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _BUFFER)
            self._socket.setblocking(False)
            self._socket.bind((interface, ETH_P_ALL))
        except (OSError, Scapy_Exception) as error:
            raise CommandError(Exit.SYSTEM, f"cannot capture on {interface}: {error}") from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
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


def complete_until(now: int, sockets: Iterable[Sequence[Captured]], most: int) -> int:
    """The time until which all packets have been read; ``now`` is from before the first read.

    A socket that returned ``most`` packets may hold more, all later than its last one.
    """
    return min((now, *(packets[-1][0] for packets in sockets if len(packets) == most)))


def monotonic(captured: int, wall: int, now: int) -> int:
    """Converts ``captured`` from the wall clock to the monotonic one; they show ``wall`` and ``now``.

    All are in nanoseconds. The wall clock may be set at any time, which must not delay events.
    """
    ago = wall - captured
    return now - ago if -_AHEAD <= ago < _SET else now


class ReorderBuffer:
    """Delays segments that may have been overtaken.

    A join on one interface must not be handled before the handshake on another that opened its session. The sockets are
    read one after the other: packets captured before the first read are complete; later ones are only those of the
    sockets that were read last.
    """

    def __init__(self) -> None:
        self._later: list[Segment] = []

    @property
    def has_pending(self) -> bool:
        return bool(self._later)

    def push(self, segments: Iterable[Segment], complete_until: int) -> list[Segment]:
        """Returns the segments that are in order, oldest first; those after ``complete_until`` wait."""
        everything = sorted([*self._later, *segments], key=lambda segment: segment.time)
        self._later = [segment for segment in everything if segment.time > complete_until]
        return everything[: len(everything) - len(self._later)]
