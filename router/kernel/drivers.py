"""The driver of an interface and where it is plugged in, as ``ethtool -i`` shows them."""

import array
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946  # linux/sockios.h
_GET_DRIVER_INFO = 0x3  # linux/ethtool.h
# struct ethtool_drvinfo: command, driver, version, firmware version, bus, and more that is not needed here.
_INFO = struct.Struct("=I32s32s32s32s64x")
# struct ifreq of netdevice(7): the name, then a union of 24 bytes, here a pointer.
_REQUEST = struct.Struct("@16sP16x")


def driver_and_bus(name: str) -> tuple[str, str]:
    """As in ``("r8152", "usb-0000:01:00.0-1.2")``; empty where the interface has none, or is gone."""
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
