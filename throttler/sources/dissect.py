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


_Found = tuple[str, int, str, int, Flags, bytes]
"""A segment's source and destination, each with its port, flags and options."""


def segment(data: bytes, link: type[Packet], time: int, interface: str, outgoing: bool) -> Segment | None:
    """The packet ``data``, whose outermost layer is ``link``, as a segment, or None if it has no whole TCP header."""
    found = _found(data, link)
    return Segment(time, interface, outgoing, *found) if found else None


def _found(data: bytes, link: type[Packet]) -> _Found | None:
    if link is Ether and len(data) >= _ETHERNET_HEADER:
        (kind,) = _ETHERTYPE.unpack_from(data)
        if kind == _ETHERTYPE_IPV4:
            return _ipv4(data, _ETHERNET_HEADER)
        if kind == _ETHERTYPE_IPV6:
            return _ipv6(data, _ETHERNET_HEADER)
    if link is IPv46 and data:
        return (_ipv6 if data[0] >> 4 == 6 else _ipv4)(data, 0)
    return _in_layers(data, link)


def _ipv4(data: bytes, at: int) -> _Found | None:
    if len(data) < at + _IPV4_HEADER:
        return None
    version, total, fragment, protocol, source, destination = _IPV4.unpack_from(data, at)
    length = 4 * (version & 0xF)
    if version >> 4 != 4 or length < _IPV4_HEADER or fragment & _FRAGMENT_OFFSET or protocol != socket.IPPROTO_TCP:
        return None
    # Zero where segmentation is left to the interface and the packet is longer than the field can say.
    end = at + total if total >= length else len(data)
    return _tcp(data[:end], at + length, socket.AF_INET, source, destination)


def _ipv6(data: bytes, at: int) -> _Found | None:
    if len(data) < at + _IPV6_HEADER:
        return None
    version, length, header, source, destination = _IPV6.unpack_from(data, at)
    if version >> 4 != 6 or header != socket.IPPROTO_TCP:
        return None
    at += _IPV6_HEADER
    return _tcp(data[: at + length], at, socket.AF_INET6, source, destination)


def _tcp(data: bytes, at: int, family: int, source: bytes, destination: bytes) -> _Found | None:
    if len(data) < at + _TCP_HEADER:
        return None
    source_port, destination_port, offset, flags = _TCP.unpack_from(data, at)
    length = 4 * (offset >> 4)
    if length < _TCP_HEADER or len(data) < at + length:
        return None
    ends = socket.inet_ntop(family, source), source_port, socket.inet_ntop(family, destination), destination_port
    return *ends, _FLAGS[flags], data[at + _TCP_HEADER : at + length]


def _in_layers(data: bytes, link: type[Packet]) -> _Found | None:
    """What is in the first IP layer that Scapy finds; from there on it is read as everywhere."""
    try:
        layers = link(data).iterpayloads()
        network = next((layer for layer in layers if isinstance(layer, IP | IPv6)), None)
    except Exception:
        # Anybody can send any bytes: whatever Scapy makes of them must not end the throttler.
        return None
    if network is None:
        return None
    return (_ipv4 if isinstance(network, IP) else _ipv6)(network.original, 0)
