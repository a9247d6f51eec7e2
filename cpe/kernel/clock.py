"""Whether the time of day can be believed."""

from pathlib import Path

_TIMESYNC = Path("/run/systemd/timesync")


def is_right(timesync: Path = _TIMESYNC) -> bool:
    """Whether systemd-timesyncd(8) has set the clock since boot; another program's clock is believed."""
    return not timesync.exists() or (timesync / "synchronized").exists()
