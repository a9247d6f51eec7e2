"""A captured packet's bytes to a Segment.

Ethernet, or the nothing that tunnels have in its place, IP and TCP, which is what nearly every packet has, are read
here: in 3 microseconds, where Scapy's layers take 130, and there may be thousands a second. What else there is (VLAN
tags, other link layers) has its layers below IP taken off by Scapy. Of a header that is not whole nothing is given,
since its receiver would drop it. No bytes raise.
"""

import socket
import struct

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6, IPv46
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tributary.wire.segments import Flags, Segment

_ETHERNET_HEADER, _IPV4_HEADER, _IPV6_HEADER, _TCP_HEADER = 14, 20, 40, 20
"""Bytes without options (RFC 791 section 3.1, RFC 8200 section 3, RFC 9293 section 3.1)."""
_ETHERTYPE = struct.Struct("!12xH")
_ETHERTYPE_IPV4, _ETHERTYPE_IPV6 = 0x0800, 0x86DD
_IPV4 = struct.Struct("!BxHxxHxBxx4s4s")
"""Version and header length, total length, fragment, protocol, addresses."""
_IPV6 = struct.Struct("!BxxxHBx16s16s")
"""Version, payload length, next header, addresses."""
_TCP = struct.Struct("!HH8xBB")
"""Ports, data offset, flags."""
_FRAGMENT_OFFSET = 0x1FFF
_FLAGS = [Flags(number & int(Flags.FIN | Flags.SYN | Flags.RST | Flags.ACK)) for number in range(256)]


def segment(data: bytes, link: type[Packet], time: int, interface: str, outgoing: bool) -> Segment | None:
    """The packet ``data``, whose outermost layer is ``link``, as a segment, or None if it has no whole TCP header."""
    if link is Ether and len(data) >= _ETHERNET_HEADER:
        (kind,) = _ETHERTYPE.unpack_from(data)
        if kind == _ETHERTYPE_IPV4:
            return _ipv4(data, _ETHERNET_HEADER, time, interface, outgoing)
        if kind == _ETHERTYPE_IPV6:
            return _ipv6(data, _ETHERNET_HEADER, time, interface, outgoing)
    if link is IPv46 and data:
        return (_ipv6 if data[0] >> 4 == 6 else _ipv4)(data, 0, time, interface, outgoing)
    return _in_layers(data, link, time, interface, outgoing)


def _ipv4(data: bytes, at: int, time: int, interface: str, outgoing: bool) -> Segment | None:
    if len(data) < at + _IPV4_HEADER:
        return None
    version, total, fragment, protocol, source, destination = _IPV4.unpack_from(data, at)
    length = 4 * (version & 0xF)
    if version >> 4 != 4 or length < _IPV4_HEADER or fragment & _FRAGMENT_OFFSET or protocol != socket.IPPROTO_TCP:
        return None
    # Zero where segmentation is left to the interface and the packet is longer than the field can say.
    end = at + total if total >= length else len(data)
    ends = socket.inet_ntop(socket.AF_INET, source), socket.inet_ntop(socket.AF_INET, destination)
    return _tcp(data[:end], at + length, ends, time, interface, outgoing)


def _ipv6(data: bytes, at: int, time: int, interface: str, outgoing: bool) -> Segment | None:
    if len(data) < at + _IPV6_HEADER:
        return None
    version, length, header, source, destination = _IPV6.unpack_from(data, at)
    if version >> 4 != 6 or header != socket.IPPROTO_TCP:
        return None
    at += _IPV6_HEADER
    ends = socket.inet_ntop(socket.AF_INET6, source), socket.inet_ntop(socket.AF_INET6, destination)
    return _tcp(data[: at + length], at, ends, time, interface, outgoing)


def _tcp(data: bytes, at: int, ends: tuple[str, str], time: int, interface: str, outgoing: bool) -> Segment | None:
    if len(data) < at + _TCP_HEADER:
        return None
    source_port, destination_port, offset, flags = _TCP.unpack_from(data, at)
    length = 4 * (offset >> 4)
    if length < _TCP_HEADER or len(data) < at + length:
        return None
    return Segment(
        time=time,
        interface=interface,
        outgoing=outgoing,
        source=ends[0],
        source_port=source_port,
        destination=ends[1],
        destination_port=destination_port,
        flags=_FLAGS[flags],
        options=data[at + _TCP_HEADER : at + length],
    )


def _in_layers(data: bytes, link: type[Packet], time: int, interface: str, outgoing: bool) -> Segment | None:
    """What is in the first IP layer that Scapy finds; from there on it is read as everywhere."""
    try:
        layers = link(data).iterpayloads()
        network = next((layer for layer in layers if isinstance(layer, IP | IPv6)), None)
    except Exception:
        # Anybody can send any bytes: whatever Scapy makes of them must not end the throttler.
        return None
    if network is None:
        return None
    read = _ipv4 if isinstance(network, IP) else _ipv6
    return read(network.original, 0, time, interface, outgoing)
