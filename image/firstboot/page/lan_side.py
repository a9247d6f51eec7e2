"""Which port is the LAN's, before anybody has said so: one at which nobody gives addresses. Pure.

The page must never be where strangers are, nor may the box give addresses in somebody else's network. A link to the
Internet answers whoever asks for an address, mostly within a second. So a port on the board counts as the LAN's once
something has been connected to it for half a minute, and nobody has answered the box's own asking. USB adapters and
Wi-Fi never do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
