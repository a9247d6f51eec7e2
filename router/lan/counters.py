"""Keeps the LAN's table in the kernel, and reads what its devices send and receive."""

from contextlib import suppress
from pathlib import Path

from router.lan.devices import DELETE_TABLE, TABLE, Answer, devices, names, rules
from router.settings import RouterSettings
from tributary.kernel import nft
from tributary.settings.errors import CommandError

_INTERVAL = 1.0
"""Seconds for which devices that were read are answered again."""
_LONGEST_LEASES = 1 << 20


class DeviceCounters:
    """All methods but ``install`` raise CommandError."""

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._read: tuple[float, list[Answer]] | None = None

    def install(self) -> None:
        """Replace what an earlier daemon has left; where that fails, ``restore`` does so later."""
        with suppress(CommandError):
            nft.execute(DELETE_TABLE)
            self.restore()

    def change_settings(self, settings: RouterSettings) -> None:
        """Count from zero if another interface is the LAN's now, or end."""
        before, self._settings = self._interface, settings
        if self._interface != before:
            nft.execute(DELETE_TABLE)
        self.restore()

    def restore(self) -> None:
        """Make the table if it is missing, as after ``nft flush ruleset``."""
        if self._interface and nft.listed(TABLE) is None:
            nft.execute(rules(self._interface))

    def remove(self) -> None:
        """Remove the table."""
        if self._interface:
            nft.execute(DELETE_TABLE)

    def devices(self, now: float) -> list[Answer]:
        """Those that were seen within a day; ``now`` by time.monotonic()."""
        if self._read is None or now >= self._read[0] + _INTERVAL:
            counted = nft.counted(TABLE) if self._interface else None
            self._read = now, [] if counted is None else devices(counted, self._names())
        return self._read[1]

    @property
    def _interface(self) -> str | None:
        return self._settings.lan if self._settings.devices else None

    def _names(self) -> dict[str, str]:
        """Of devices, by MAC address; none if the file is not there or cannot be read."""
        try:
            with Path(self._settings.leases).open(errors="replace") as file:
                return names(file.read(_LONGEST_LEASES))
        except OSError:
            return {}
