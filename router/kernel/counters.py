"""The counters of an interface (Documentation/ABI/testing/sysfs-class-net-statistics)."""

from pathlib import Path

from router.kernel_state import Octets
from router.links.stall import Count

_INTERFACES = Path("/sys/class/net")


def packets(interface: str, now: float) -> Count | None:
    """Packets at ``now``; None if the interface is gone."""
    found = _counters(interface, "tx_packets", "rx_packets")
    return Count(now, *found) if found else None


def octets(interface: str) -> Octets | None:
    """Bytes; None if the interface is gone."""
    found = _counters(interface, "rx_bytes", "tx_bytes")
    return Octets(*found) if found else None


def _counters(interface: str, one: str, other: str) -> tuple[int, int] | None:
    folder = _INTERFACES / interface / "statistics"
    try:
        return int((folder / one).read_text()), int((folder / other).read_text())
    except (OSError, ValueError):
        return None
