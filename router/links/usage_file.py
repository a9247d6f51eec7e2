"""Saves the usage of monthly caps over restarts, power cuts and reboots."""

from pathlib import Path

from router.links.usage import Usage
from tributary.daemons.state_file import StateFile, Tell
from tributary.kernel import sysctl


class UsageFile(StateFile):
    """The file ``usage.json``, written once a link has a cap; its methods raise CommandError."""

    def __init__(self, where: Path) -> None:
        super().__init__(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        boot = sysctl.read("kernel/random/boot_id") or ""
        return self.read(lambda document: Usage.load(document, boot), tell) or Usage(boot=boot)

    def save(self, usage: Usage) -> None:
        self.replace(usage.dump())
