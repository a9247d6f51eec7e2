"""Asks the kernel whether a connection uses MPTCP."""

import socket
import struct

IPPROTO_MPTCP = 262
_SOL_MPTCP, _MPTCP_INFO = 284, 1
_FLAGS = struct.Struct("=8xI")  # struct mptcp_info in linux/mptcp.h
_FALLBACK = 1  # MPTCP_INFO_FLAG_FALLBACK


def is_mptcp(connection: socket.socket) -> bool:
    """Whether an established MPTCP socket did not fall back to TCP; one that did has no MPTCP_INFO, or a flag in it."""
    try:
        info = connection.getsockopt(_SOL_MPTCP, _MPTCP_INFO, _FLAGS.size)
    except OSError:
        return False
    (flags,) = _FLAGS.unpack(info)
    return not flags & _FALLBACK
