"""Notifies the service manager by the protocol of sd_notify(3): datagrams to the socket in NOTIFY_SOCKET."""

import os
import socket
from collections.abc import Mapping

from tributary.daemons.logs import printable

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"

_TIMEOUT = 1.0
"""Seconds to wait for a full queue of the service manager."""
_NO_WATCHDOG = 2**64 - 1  # USEC_INFINITY of systemd's time-util.h


def reloading(monotonic_ns: int) -> str:
    """A reload begins now, by CLOCK_MONOTONIC in nanoseconds; READY ends it. Type=notify-reload needs the time."""
    return f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns // 1000}"


def status(text: str) -> str:
    """One line for people, shown by ``systemctl status``."""
    return f"STATUS={printable(text)}"


def send(*states: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send ``states`` in one datagram; returns whether it was sent. False also without NOTIFY_SOCKET.

    No failure is raised: sd_notify(3) advises to ignore errors.
    """
    address = _address(environment.get("NOTIFY_SOCKET", ""))
    if address is None:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(_TIMEOUT)
            channel.connect(address)
            channel.send("\n".join(states).encode(errors="replace"))
    except OSError:
        return False
    return True


def _address(text: str) -> str | None:
    """A path, or an abstract name, which NOTIFY_SOCKET writes with ``@`` for its null byte (unix(7))."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def watchdog_interval(environment: Mapping[str, str] = os.environ, pid: int | None = None) -> float | None:
    """Seconds between two WATCHDOG messages of process ``pid`` (this one); None without a watchdog.

    Half of the time after which the service manager acts, as sd_watchdog_enabled(3) recommends.
    """
    limit = _whole_number(environment.get("WATCHDOG_USEC", ""))
    for_pid = environment.get("WATCHDOG_PID")
    if limit in (None, 0, _NO_WATCHDOG):
        return None
    if for_pid is not None and _whole_number(for_pid) != (os.getpid() if pid is None else pid):
        return None
    return (limit or 0) / 2 / 10**6


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
