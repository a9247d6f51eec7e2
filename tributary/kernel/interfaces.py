"""Interfaces: which exist, their drivers, MTUs and counters."""

import array
import fcntl
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from tributary.kernel.netlink import ROUTE, Watch
from tributary.kernel.state import Octets

_LINKS = 1  # RTNLGRP_LINK of linux/rtnetlink.h
_SIOCGIFMTU = 0x8921  # linux/sockios.h
_SIOCETHTOOL = 0x8946  # linux/sockios.h
_GET_DRIVER_INFO = 0x3  # linux/ethtool.h
# struct ethtool_drvinfo: command, driver, version, firmware version, bus, and more that is not needed here.
_INFO = struct.Struct("=I32s32s32s32s64x")
# struct ifreq of netdevice(7): the name, then a union of 24 bytes, here a pointer.
_REQUEST = struct.Struct("@16sP16x")


_COUNTERS = Path("/sys/class/net")

Numbers = Mapping[str, int]
"""Interfaces by name, each with its number: one that went away and came back has another."""


def numbers() -> Numbers:
    """The interfaces of this network namespace."""
    return {name: number for number, name in socket.if_nameindex()}


def watch() -> Watch:
    """Notices interfaces that come, go or change."""
    return Watch(ROUTE, _LINKS)


def mtu(name: str) -> int:
    """An interface's MTU in bytes; raises OSError. /sys may show another network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # struct ifreq: the name, then a union of 24 bytes.
        answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, struct.pack("16s24x", name.encode()))
    return int(struct.unpack("16xi20x", answer)[0])


def packets(name: str) -> tuple[int, int] | None:
    """Packets sent and received; None if the interface is gone."""
    return _counters(name, "tx_packets", "rx_packets")


def octets(name: str) -> Octets | None:
    """Bytes; None if the interface is gone."""
    found = _counters(name, "rx_bytes", "tx_bytes")
    return Octets(*found) if found else None


def _counters(name: str, one: str, other: str) -> tuple[int, int] | None:
    """Documentation/ABI/testing/sysfs-class-net-statistics."""
    folder = _COUNTERS / name / "statistics"
    try:
        return int((folder / one).read_text()), int((folder / other).read_text())
    except (OSError, ValueError):
        return None


def driver_and_bus(name: str) -> tuple[str, str]:
    """The driver, and where the interface is plugged in, such as ``("r8152", "usb-0000:01:00.0-1.2")``.

    As ``ethtool -i`` shows them; empty where the interface has none, or is gone.
    """
    info = array.array("B", _INFO.pack(_GET_DRIVER_INFO, b"", b"", b"", b""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, _SIOCETHTOOL, _REQUEST.pack(name.encode(), info.buffer_info()[0]))
        except OSError:
            return "", ""
    _, driver, _, _, bus = _INFO.unpack(info)
    return _text(driver), _text(bus)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="replace")
