"""Reads what the devices of the LAN send and receive."""

from pathlib import Path

from router.lan.devices import TABLE, Answer, devices, names, rules
from router.lan.own_table import OwnTable
from router.settings import RouterSettings
from tributary.kernel import nft

_INTERVAL = 0.25
"""Seconds for which devices that were read are answered again."""
_LONGEST_LEASES = 1 << 20


class DeviceCounters:
    """The counters of the settings' LAN; all methods raise CommandError."""

    def __init__(self) -> None:
        self.table = OwnTable(TABLE)
        self._interface: str | None = ""  # an earlier daemon may have left a table
        self._leases = Path()
        self._read: tuple[float, list[Answer]] | None = None

    def change_settings(self, settings: RouterSettings) -> None:
        """Count from zero if another interface is the LAN's now, or end."""
        self._leases = settings.leases
        interface = settings.lan if settings.devices else None
        if interface != self._interface:
            self.table.replace(rules(interface) if interface else "")
            self._interface = interface
        self.table.restore()

    def devices(self, now: float) -> tuple[float, list[Answer]]:
        """Those that were seen within a day, and when that was read; ``now`` by time.monotonic()."""
        if self._read is None or now >= self._read[0] + _INTERVAL:
            counted = nft.counted(TABLE) if self._interface else None
            self._read = now, [] if counted is None else devices(counted, self._names())
        return self._read

    def _names(self) -> dict[str, str]:
        """Of devices, by MAC address; none if the file is not there or cannot be read."""
        try:
            with self._leases.open(errors="replace") as file:
                return names(file.read(_LONGEST_LEASES))
        except OSError:
            return {}
