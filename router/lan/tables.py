"""The tables of nft(8) for the LAN: what its devices send and receive is counted, and what is by-passed."""

import secrets
from collections.abc import Collection, Iterator
from pathlib import Path

from router.lan import devices
from router.lan.bypass import Bypasses
from router.lan.devices import Answer
from router.lan.own_table import OwnTable
from router.settings import RouterSettings
from tributary.kernel import nft
from tributary.kernel.state import Rule
from tributary.settings.errors import CommandError
from tributary.settings.privacy import Privacy

_INTERVAL = 0.25
"""Seconds for which devices that were read are answered again."""
_LONGEST_LEASES = 1 << 20
_SECRET = 32
"""Bytes."""
_SERVICE, _ROUTING_TABLE = "inet tributary-lan", 8300
"""What tributary-lan.service loads, and where its routing rules lead, which are there as long as it is started."""


class LanTables:
    """Both tables and what they say; all methods but ``remove`` raise CommandError.

    ``service_rules`` is the file that tributary-lan.service loads, where it is there.
    """

    def __init__(self, service_rules: Path) -> None:
        self._service_rules = service_rules
        self._counters, self.bypasses = OwnTable(devices.TABLE), Bypasses()
        self._tables = self._counters, self.bypasses.table
        self._counted: str | None = ""
        """The interface whose devices are counted; an earlier daemon may have left a table."""
        self._leases = Path()
        self._privacy: Privacy = "full"
        self._secret = secrets.token_bytes(_SECRET)
        self._read: tuple[float, list[Answer]] | None = None

    def change_settings(self, settings: RouterSettings) -> None:
        """Drops the by-passes that were added; counts from zero if another interface is the LAN's now, or ends."""
        self.bypasses.change_settings(settings)
        self._leases, self._privacy = settings.leases, settings.privacy
        interface = settings.lan if settings.devices else None
        if interface != self._counted:
            self._counters.replace(devices.rules(interface) if interface else "")
            self._counted = interface

    def restore(self, rules: Collection[Rule]) -> Iterator[str]:
        """Makes again the tables that another program has removed; yields their names.

        Also that of the service, if it is started by the kernel's routing ``rules``.
        """
        is_started = self._service_rules.exists() and any(rule.table == _ROUTING_TABLE for rule in rules)
        service = OwnTable(_SERVICE, f'include "{self._service_rules}"\n' if is_started else "")
        for table in (*self._tables, service):
            if table.restore():
                yield table.name

    def shown(self, now: float) -> dict[str, object]:
        """The document of by-passes and of devices that were seen within a day; ``now`` by time.monotonic()."""
        if self._read is None or now >= self._read[0] + _INTERVAL:
            counted = nft.counted(devices.TABLE) if self._counted else None
            found = [] if counted is None else devices.devices(counted, self._names())
            self._read = now, devices.shown(found, self._privacy, self._secret)
        moment, found = self._read
        return {"moment": moment, "devices": found, "bypass": self.bypasses.listed}

    def _names(self) -> dict[str, str]:
        """Of devices, by MAC address; none if the file is not there or cannot be read."""
        try:
            with self._leases.open(errors="replace") as file:
                return devices.names(file.read(_LONGEST_LEASES))
        except OSError:
            return {}

    def remove(self) -> list[str]:
        """Returns what failed."""
        errors: list[str] = []
        for table in self._tables:
            try:
                table.remove()
            except CommandError as error:
                errors.append(str(error))
        return errors
