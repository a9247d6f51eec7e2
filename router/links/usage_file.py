"""Saves the usage of monthly caps over restarts, power cuts and reboots."""

from pathlib import Path

from router.links.usage import Meter, Usage
from tributary.daemons.state_file import StateFile, Tell, document_of
from tributary.kernel import sysctl

_READ = document_of(dict[str, Meter])


class UsageFile(StateFile):
    """The file ``usage.json``, written once a link has a cap; its methods raise CommandError."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        return Usage(self.read(_READ, tell), sysctl.read("kernel/random/boot_id") or "")

    def save(self, usage: Usage) -> None:
        self.replace(usage.meters)
