"""The tables of nft(8) for the LAN: which devices are counted, and what is by-passed."""

from router.lan.bypass import Bypasses
from router.lan.counters import DeviceCounters
from router.settings import RouterSettings
from tributary.settings.errors import CommandError


class LanTables:
    """Both tables and what they say; all methods but ``remove`` raise CommandError."""

    def __init__(self) -> None:
        self._devices, self.bypasses = DeviceCounters(), Bypasses()
        self._tables = self._devices.table, self.bypasses.table

    def change_settings(self, settings: RouterSettings) -> None:
        """Drops the by-passes that were added."""
        self.bypasses.change_settings(settings)
        self._devices.change_settings(settings)

    def restore(self) -> None:
        """Makes again what another program has removed."""
        for table in self._tables:
            table.restore()

    def shown(self, now: float) -> dict[str, object]:
        """The document of devices and by-passes; ``now`` by time.monotonic()."""
        moment, devices = self._devices.devices(now)
        return {"moment": moment, "devices": devices, "bypass": self.bypasses.listed}

    def remove(self) -> list[str]:
        """Returns what failed."""
        errors: list[str] = []
        for table in self._tables:
            try:
                table.remove()
            except CommandError as error:
                errors.append(str(error))
        return errors
