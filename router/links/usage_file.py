"""Saves the usage of monthly caps over restarts, power cuts and reboots."""

from pathlib import Path

from router.links.usage import Usage
from tributary.daemons.state_file import StateFile, Tell

DIRECTORY = Path("/var/lib/tributary/router")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class UsageFile:
    """The file ``usage.json`` in a directory; it is written once a link has a cap."""

    def __init__(self, where: Path) -> None:
        self._file = StateFile(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        """Returns the saved usage, or an empty one.

        A damaged file is set aside and reported to ``tell``. Without ``tell`` it raises CommandError, exit 71, or 77 if
        root owns the file.
        """
        boot = _BOOT.read_text().strip()
        return self._file.read(lambda document: Usage.load(document, boot), tell) or Usage(boot=boot)

    def save(self, usage: Usage) -> None:
        """Replaces the file atomically; raises CommandError, exit 71."""
        self._file.replace(usage.dump())
