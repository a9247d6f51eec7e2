"""The end of a connection that a measurement broke off: what is in its buffers would disturb the next one."""

import ctypes
import socket

_libc = ctypes.CDLL(None)


def break_off(connection: socket.socket) -> None:
    """Drop ``connection`` with all that is on its way; the peer gets a reset, of all subflows.

    A close would not do: the kernel says goodbye in order when nothing is unread at that moment, and the peer of an
    MPTCP session may then go on sending for a while.
    """
    # connect(2): AF_UNSPEC dissolves the association.
    _libc.connect(connection.fileno(), bytes(16), 16)
