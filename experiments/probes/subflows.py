"""What the kernel knows of the subflows of a connected socket, from getsockopt(2) (include/uapi/linux/mptcp.h)."""

import ctypes
import errno
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

_SOL_MPTCP, _MPTCP_TCPINFO, _MPTCP_SUBFLOW_ADDRS = 284, 2, 3
_MOST_SUBFLOWS = 16
_ATTEMPTS = 10
_SUBFLOW_DATA = struct.Struct("=IIII")  # struct mptcp_subflow_data: its size, subflows, sizes in kernel and user space
_TCP_INFO_SIZE, _BYTES_RECEIVED = 232, 128  # struct tcp_info up to Linux 5.18, and tcpi_bytes_received in it
_SOCKADDR_SIZE = 128  # struct sockaddr_storage; struct mptcp_subflow_addrs holds two: local, remote

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Subflow:
    """One subflow of a connection: its addresses as ``address:port``, and the payload bytes that came by it."""

    local: str
    remote: str
    received: int


def subflows_of(connection: socket.socket) -> list[Subflow]:
    """The subflows of ``connection``; a plain TCP connection counts as one. Raises OSError."""
    if connection.proto != socket.IPPROTO_MPTCP:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        return [Subflow(_text(connection.getsockname()), _text(connection.getpeername()), _received(info))]
    return together(
        lambda: _per_subflow(connection, _MPTCP_SUBFLOW_ADDRS, 2 * _SOCKADDR_SIZE),
        lambda: _per_subflow(connection, _MPTCP_TCPINFO, _TCP_INFO_SIZE),
    )


def together(addresses_of: Callable[[], list[bytes]], infos_of: Callable[[], list[bytes]]) -> list[Subflow]:
    """The subflows whose addresses one call gives and whose state another one.

    A subflow may come or go between the two, which would give its state to its neighbour: what counts is what stands
    between two answers to the first call that are the same. Raises OSError (EAGAIN) if that never was.
    """
    addresses = addresses_of()
    for _ in range(_ATTEMPTS):
        before, infos, addresses = addresses, infos_of(), addresses_of()
        if before == addresses and len(infos) == len(addresses):
            return [
                Subflow(_address(pair[:_SOCKADDR_SIZE]), _address(pair[_SOCKADDR_SIZE:]), _received(info))
                for pair, info in zip(addresses, infos, strict=True)
            ]
    raise OSError(errno.EAGAIN, "the subflows changed whenever they were looked at")


def _per_subflow(connection: socket.socket, option: int, size: int) -> list[bytes]:
    """A getsockopt whose buffer tells the kernel our sizes, which the socket module cannot pass."""
    buffer = ctypes.create_string_buffer(_SUBFLOW_DATA.size + _MOST_SUBFLOWS * size)
    _SUBFLOW_DATA.pack_into(buffer, 0, _SUBFLOW_DATA.size, 0, 0, size)
    length = ctypes.c_uint32(len(buffer))
    if _libc.getsockopt(connection.fileno(), _SOL_MPTCP, option, buffer, ctypes.byref(length)) != 0:
        raise OSError(ctypes.get_errno(), f"getsockopt(SOL_MPTCP, {option})")
    _, count, _, _ = _SUBFLOW_DATA.unpack_from(buffer)
    starts = range(_SUBFLOW_DATA.size, _SUBFLOW_DATA.size + min(count, _MOST_SUBFLOWS) * size, size)
    return [buffer.raw[start : start + size] for start in starts]


def _received(info: bytes) -> int:
    return int(struct.unpack_from("=Q", info, _BYTES_RECEIVED)[0])


def _address(raw: bytes) -> str:
    family, port = struct.unpack_from("=H", raw)[0], struct.unpack_from("!H", raw, 2)[0]
    if family == socket.AF_INET:
        return _text((socket.inet_ntop(family, raw[4:8]), port))
    return _text((socket.inet_ntop(socket.AF_INET6, raw[8:24]), port))


def _text(address: tuple[str, int]) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
