"""Where it is kept what links have used of their monthly caps: over restarts, power cuts and reboots."""

from pathlib import Path

from router.usage import Usage
from tributary.daemons.state_file import StateFile, Tell

DIRECTORY = Path("/var/lib/tributary/router")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class UsageFile:
    """The file ``usage.json`` in a directory; written when a link has a cap, and not before."""

    def __init__(self, where: Path) -> None:
        self._file = StateFile(where / "usage.json")

    def load(self, tell: Tell | None = None) -> Usage:
        """What was kept last.

        What is not ours is set aside and told; without ``tell`` CommandError is raised, exit 71, or 77 if it is root's.
        """
        boot = _BOOT.read_text().strip()
        return self._file.read(lambda document: Usage.load(document, boot), tell) or Usage(boot=boot)

    def save(self, usage: Usage) -> None:
        """Replace the file whole; raises CommandError, exit 71."""
        self._file.replace(usage.dump())
