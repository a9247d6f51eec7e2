"""How many packets an interface has sent and received (Documentation/ABI/testing/sysfs-class-net-statistics)."""

from pathlib import Path

from cpe.stillness import Count

_INTERFACES = Path("/sys/class/net")


def packets(interface: str, now: float) -> Count | None:
    """The count at ``now``; None if the interface is gone."""
    folder = _INTERFACES / interface / "statistics"
    try:
        sent, received = (int((folder / name).read_text()) for name in ("tx_packets", "rx_packets"))
    except (OSError, ValueError):
        return None
    return Count(now, sent, received)
