"""Packets as the kernel sees them pass, with its own timestamps (packet(7), SO_TIMESTAMPNS)."""

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

from tributary.kernel.bpf import Instruction, attach, pack

OUTGOING = 4  # linux/if_packet.h
_ETH_P_ALL = 0x0003  # linux/if_ether.h
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33  # asm-generic/socket.h
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_TIME = struct.Struct("=qq")  # struct timespec


def opened(
    program: Sequence[Instruction], interface: str = "", kind: socket.SocketKind = socket.SOCK_RAW
) -> socket.socket:
    """A socket that gets the packets that ``program`` accepts, of one interface or of all.

    With SOCK_DGRAM they begin with their IP header. Raises PermissionError without CAP_NET_RAW.
    """
    packets = socket.socket(socket.AF_PACKET, kind, 0 if interface else socket.htons(_ETH_P_ALL))
    attach(packets, pack(tuple(program)))
    packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    packets.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    if interface:
        packets.bind((interface, _ETH_P_ALL))
    else:
        packets.setblocking(False)
        with suppress(BlockingIOError):
            while packets.recv(1):
                pass  # it came before the filter
        packets.setblocking(True)
    return packets


def receive(packets: socket.socket) -> tuple[int, bytes, str, int]:
    """The next one: nanoseconds since 1970, the packet as far as the filter takes it, its interface, and its kind.

    Raises BlockingIOError if there is none, on a socket that does not block.
    """
    packet, control, _, (interface, _, kind, *_) = packets.recvmsg(1 << 16, socket.CMSG_SPACE(_TIME.size))
    seconds, nanoseconds = _TIME.unpack(control[0][2])
    return seconds * 10**9 + nanoseconds, packet, interface, kind


def lost(packets: socket.socket) -> int:
    """How many packets found no room in the socket's queue since this was asked last."""
    return int(struct.unpack("II", packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1])
