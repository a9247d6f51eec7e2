"""Counters of HTB classes: sent, dropped and queued (rtnetlink(7), RTM_GETTCLASS)."""

import errno
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tributary.kernel.netlink import ECHO, ROUTE, Interrupted, Malformed, Message, attributes, kept
from tributary.settings.errors import CommandError, Exit

_GET_CLASS = 42
_TCMSG = struct.Struct("=BxxxiIII")
# linux/rtnetlink.h, linux/gen_stats.h
_STATS2, _BASIC, _QUEUE, _PACKETS64 = 7, 1, 3, 8
_ETHERNET_HEADER = 14
_MAJOR = 0xFFFF_0000


@dataclass(frozen=True, slots=True)
class ClassStatistics:
    """Since the class was opened: bytes of Ethernet frames sent, frames sent, frames dropped; and bytes queued now."""

    bytes: int
    packets: int
    drops: int
    backlog: int

    @property
    def ip_bytes(self) -> int:
        """Bytes of IP packets sent: frames without their Ethernet headers."""
        return self.bytes - _ETHERNET_HEADER * self.packets


def of_class(device: str, major: int, minor: int) -> ClassStatistics | None:
    """The counters of class ``major | minor``, None if it does not exist; raises CommandError, exit 71."""
    try:
        request = _TCMSG.pack(0, socket.if_nametoindex(device), major | minor, 0, 0)
        # Without ECHO the kernel answers only to the listeners of its multicast group (net/sched/sch_api.c).
        return _read(kept(ROUTE).ask(_GET_CLASS, request, ECHO))[1]
    except (OSError, Malformed, struct.error) as error:
        # ENODEV: its device went away; None: before, as if_nametoindex() says it until Python 3.14.
        if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENODEV, None):
            return None
        raise CommandError(Exit.SYSTEM, f"cannot read class {minor:x} of {device}: {error}") from error


def of_device(device: str, major: int) -> Mapping[int, ClassStatistics]:
    """The counters of all classes of the qdisc ``major`` by minor number; none if the device does not exist."""
    found: dict[int, ClassStatistics] = {}
    try:
        request = _TCMSG.pack(0, socket.if_nametoindex(device), 0, 0, 0)
        for answer in kept(ROUTE).dump(_GET_CLASS, request):
            handle, statistics = _read(answer)
            if handle & _MAJOR == major:
                found[handle & ~_MAJOR] = statistics
    except (OSError, Malformed, Interrupted, struct.error):
        # Status shows what could be read.
        pass
    return found


def _read(answer: Message) -> tuple[int, ClassStatistics]:
    _, _, handle, _, _ = _TCMSG.unpack_from(answer.body)
    found = dict(attributes(dict(attributes(answer.body, _TCMSG.size)).get(_STATS2, b"")))
    # struct gnet_stats_basic: bytes and packets, 32 bits of these; struct gnet_stats_queue: qlen, backlog, drops, ...
    octets, packets = struct.unpack_from("=QI", found.get(_BASIC, bytes(12)))
    if _PACKETS64 in found:
        (packets,) = struct.unpack_from("=Q", found[_PACKETS64])
    _, backlog, drops = struct.unpack_from("=III", found.get(_QUEUE, bytes(12)))
    return handle, ClassStatistics(octets, packets, drops, backlog)
