"""What the kernel knows of the subflows of a connected socket."""

import socket
import struct
from dataclasses import dataclass

from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import traffic

_SOL_MPTCP, _MPTCP_INFO, _TOKEN = 284, 1, struct.Struct("=12xI")  # struct mptcp_info in linux/mptcp.h
_BYTES_RECEIVED = struct.Struct("=128xQ")  # struct tcp_info in linux/tcp.h


@dataclass(frozen=True)
class Subflow:
    """One subflow of a connection: its addresses as ``address:port``, and the payload bytes that came by it."""

    local: str
    remote: str
    received: int


def subflows_of(connection: socket.socket) -> list[Subflow]:
    """The subflows of ``connection``; a plain TCP connection counts as one. Raises OSError."""
    if connection.proto != socket.IPPROTO_MPTCP:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        ends = FourTuple(*connection.getsockname()[:2], *connection.getpeername()[:2])
        return [Subflow(ends.local_end, ends.remote_end, *_BYTES_RECEIVED.unpack(info))]
    (token,) = _TOKEN.unpack(connection.getsockopt(_SOL_MPTCP, _MPTCP_INFO, _TOKEN.size))
    return [
        Subflow(ends.local_end, ends.remote_end, each.received)
        for ends, each in traffic().items()
        if each.token == token
    ]
