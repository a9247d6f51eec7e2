"""Which port is the LAN's, before anybody has said so: one at which nobody gives addresses.

The page must never be where strangers are, nor may the box give addresses in somebody else's network. A link to the
Internet answers whoever asks for an address, mostly within a second. So a port on the board counts as the LAN's once
something has been connected to it for half a minute, and nobody has answered the box's own asking, nor by PPPoE.
USB adapters and Wi-Fi never do.
"""

import json
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface

from image.firstboot.interfaces import Interface, Kind, interfaces, own_addresses
from tributary.kernel import process

_DISCOVERY = 0x8863  # PPPoE's own Ethernet type, RFC 2516 section 4
_ANSWER = 0x07  # PADO, section 5.2
_WAIT = 2.0
_EVERYBODY = b"\xff" * 6


QUIET_SECONDS = 30.0
"""Bridges that look for loops may be silent for as long before they forward (IEEE 802.1D-2004 table 17-1: twice 15)."""


@dataclass(frozen=True)
class Port:
    """``upstream``: whether anybody there gave the box an address, or a way to the Internet."""

    name: str
    carrier: bool
    upstream: bool


def quiet_since(before: Mapping[str, float], ports: Iterable[Port], now: float) -> dict[str, float]:
    """Since when (seconds) each port has been connected without such an answer; ``before`` is the last result."""
    return {port.name: before.get(port.name, now) for port in ports if port.carrier and not port.upstream}


def found(quiet: Mapping[str, float], now: float, wait: float = QUIET_SECONDS) -> str | None:
    """The port to serve: of several the one that has been quiet for longest, and then the first by name."""
    waited = [(since, name) for name, since in quiet.items() if now - since >= wait]
    return min(waited)[1] if waited else None


def looked_at(own: IPv4Interface) -> tuple[Port, ...]:
    """The ports that may be the LAN's, now; ``own`` is the address that the page itself gives to one."""
    ports = [each for each in interfaces() if each.kind is Kind.WIRED and each.built_in]
    return tuple(_port(each, own) for each in ports)


def is_free(name: str, own: IPv4Interface) -> bool:
    """Whether something is connected to the port, and nobody there gives addresses."""
    found = [_port(each, own) for each in interfaces() if each.name == name]
    return any(port.carrier and not port.upstream for port in found)


def _port(found: Interface, own: IPv4Interface) -> Port:
    return Port(found.name, found.carrier, found.carrier and has_upstream(found.name, own))


def has_upstream(name: str, own: IPv4Interface) -> bool:
    """Whether the interface has an address that others know of, beside ``own``, or a default route."""
    others = set(own_addresses(name)) - {str(own.ip)}
    return bool(others) or any(_default_routes(version, name) for version in ("-4", "-6"))


def _default_routes(version: str, name: str) -> Sequence[object]:
    """What ip(8) shows; nothing of an interface that is gone."""
    done = process.run(["ip", "-json", version, "route", "show", "default", "dev", name])
    found: Sequence[object] = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    return found


def is_answered_by_pppoe(name: str) -> bool:
    """Whether a provider's access concentrator is there: asks as RFC 2516 section 5.1 says, and waits two seconds."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_DISCOVERY)) as asking:
        asking.bind((name, _DISCOVERY))
        mac = asking.getsockname()[4]
        # Version 1, type 1, PADI, no session; one tag: any service (0x0101, empty).
        question = struct.pack("!BBHH", 0x11, 0x09, 0, 4) + struct.pack("!HH", 0x0101, 0)
        asking.send(_EVERYBODY + mac + struct.pack("!H", _DISCOVERY) + question)
        return _is_answered(asking)


def _is_answered(asking: socket.socket) -> bool:
    end = time.monotonic() + _WAIT
    while (left := end - time.monotonic()) > 0:
        asking.settimeout(left)
        try:
            frame = asking.recv(1514)
        except TimeoutError:
            return False
        if len(frame) > 15 and frame[15] == _ANSWER:
            return True
    return False
