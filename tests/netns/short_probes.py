"""Listening sockets of a running program whose connections are probed for a silent peer after a second."""

import ctypes
import os
import socket
from contextlib import suppress
from pathlib import Path

_SYS_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)
PROBED_FOR = 3
"""Seconds after which a peer that answers no probe is reset."""


def shorten_probes(pid: int, port: int) -> None:
    """Connections that this process accepts at ``port`` from now on are probed so. Raises AssertionError if it does not
    listen there, or with no probes."""
    listeners = [listener for listener in _sockets(pid) if _listens_at(listener, port)]
    assert listeners, f"process {pid} does not listen at port {port}"
    for listener in listeners:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
        listener.close()


def _sockets(pid: int) -> list[socket.socket]:
    """The process' sockets, shared with it (pidfd_getfd(2))."""
    process, found = os.pidfd_open(pid), []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if entry.readlink().name.startswith("socket:"):
                number = _libc.syscall(_SYS_PIDFD_GETFD, process, int(entry.name), 0)
                assert number >= 0, os.strerror(ctypes.get_errno())
                found.append(socket.socket(fileno=number))
    os.close(process)
    return found


def _listens_at(one: socket.socket, port: int) -> bool:
    if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
        return False
    listens = one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return bool(listens) and one.getsockname()[1] == port
