"""Saves the usage of monthly caps over restarts, power cuts and reboots."""

from pathlib import Path

from router.links.usage import Usage
from tributary.daemons.state_file import StateFile, Tell

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class UsageFile(StateFile):
    """The file ``usage.json``, written once a link has a cap; its methods raise CommandError."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        """Returns the saved usage, or an empty one."""
        boot = _BOOT.read_text().strip()
        return self.read(lambda document: Usage.load(document, boot), tell) or Usage(boot=boot)

    def save(self, usage: Usage) -> None:
        self.replace(usage.dump())
