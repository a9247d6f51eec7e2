"""What an interface has sent and received (Documentation/ABI/testing/sysfs-class-net-statistics)."""

from pathlib import Path

from router.observed import Octets
from router.stillness import Count

_INTERFACES = Path("/sys/class/net")


def packets(interface: str, now: float) -> Count | None:
    """How many packets, at ``now``; None if the interface is gone."""
    found = _counters(interface, "tx_packets", "rx_packets")
    return Count(now, *found) if found else None


def octets(interface: str) -> Octets | None:
    """How many bytes; None if the interface is gone."""
    found = _counters(interface, "rx_bytes", "tx_bytes")
    return Octets(*found) if found else None


def _counters(interface: str, one: str, other: str) -> tuple[int, int] | None:
    folder = _INTERFACES / interface / "statistics"
    try:
        return int((folder / one).read_text()), int((folder / other).read_text())
    except (OSError, ValueError):
        return None
