"""Hosts and ports in settings."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
"""Each part of a host's name (RFC 1123 section 2.1)."""

CONVERT_PORT = 5124
"""The default port of a gateway for other converters."""


@dataclass(frozen=True)
class Target:
    """An address and a port to connect to."""

    address: Address
    port: int

    @classmethod
    def parse(cls, text: str, usual: int | None = None) -> Self:
        """Read 'ADDRESS' (with the ``usual`` port, if given), 'IPV4:PORT' or '[IPV6]:PORT'.

        Raises ValueError, also for an address that no other host can have.
        """
        host, port = host_and_port(text, usual)
        address = ip_address(host)
        if not is_of_a_host(address):
            raise ValueError
        return cls(address, port)

    def __str__(self) -> str:
        return joined(str(self.address), self.port)


def host_and_port(text: str, usual: int | None = None) -> tuple[str, int]:
    """Split 'HOST', 'HOST:PORT', 'IPV6' or '[IPV6]:PORT'; without a ``usual`` port, the text must have one.

    Raises ValueError. Only a host in brackets is checked to be an address.
    """
    if usual is not None and (address := as_address(text)):
        return str(address), usual
    match = re.fullmatch(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^\[\]:]+))(?::(?P<port>\d{1,5}))?", text, re.ASCII)
    port = match and (match["port"] or usual)
    if not match or port is None or not 1 <= int(port) <= 65535:
        raise ValueError
    return str(IPv6Address(match["six"])) if match["six"] is not None else match["host"], int(port)


def joined(host: str, port: int) -> str:
    """The inverse of host_and_port()."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def as_address(text: str) -> Address | None:
    """``text`` as an address, None if it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def by_number(text: str) -> tuple[int, ...]:
    """A key that sorts addresses and networks as numbers, those of IPv4 first; other texts come last."""
    address = as_address(text.partition("/")[0])
    return (address.version, int(address)) if address else (7,)


def is_of_a_host(address: Address) -> bool:
    """Whether another host can have it; a scope (fe80::1%eth0) would name an interface of this machine."""
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or getattr(address, "scope_id", None)
    )
