"""Files in a file system inside an image: FAT by mtools(1), ext4 by debugfs(8), each told where it begins."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tributary.settings.errors import CommandError, Exit

_ENTRY = re.compile(r"/\d+/[0-7]+/\d+/\d+/([^/]*)/\d*/")  # inode, mode, user, group, name, size


@dataclass(frozen=True)
class Fat:
    """A FAT file system that begins at byte ``start`` of ``image``."""

    image: Path
    start: int

    def names(self) -> frozenset[str]:
        """All files, with the folders that they are in, such as 'EFI/BOOT/BOOTX64.EFI'."""
        shown = run("mdir", "-/", "-b", "-i", self._place, "::/").decode()
        return frozenset(line.removeprefix("::/") for line in shown.splitlines() if line and not line.endswith("/"))

    def read(self, name: str) -> bytes:
        """The file's contents; raises CommandError (66) if there is none."""
        return run("mtype", "-i", self._place, f"::/{name}")

    @property
    def _place(self) -> str:
        return f"{self.image}@@{self.start}"


@dataclass(frozen=True)
class Ext4:
    """An ext4 file system that begins at byte ``start`` of ``image``. Links are not followed."""

    image: Path
    start: int

    def names(self, folder: str) -> frozenset[str]:
        """What is in ``folder``, an absolute path; nothing if there is no such folder."""
        found = _ENTRY.findall(self._ask(f'ls -p "{folder}"').decode())
        return frozenset(found) - {"", ".", ".."}

    def read(self, path: str) -> bytes:
        """A file's contents; empty if there is none."""
        return self._ask(f'cat "{path}"')

    def link(self, path: str) -> str:
        """Where a symbolic link points to; empty if it is none."""
        shown = self._ask(f'stat "{path}"').decode(errors="replace")
        match = re.search(r'^Fast link dest: "(.*)"$', shown, re.MULTILINE)
        return match[1] if match else ""

    def flaw(self) -> str | None:
        """What is wrong with the file system itself; None if it can be read."""
        shown = self._ask("show_super_stats -h").decode(errors="replace")
        return None if re.search(r"^Filesystem state:\s+clean$", shown, re.MULTILINE) else "no clean ext4 file system"

    def _ask(self, request: str) -> bytes:
        return run("debugfs", "-R", request, f"{self.image}?offset={self.start}")


def run(*command: str, given: bytes = b"") -> bytes:
    """What ``command`` prints, with ``given`` on its standard input; raises CommandError (66, 69)."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except (FileNotFoundError, PermissionError) as error:
        package = {"debugfs": "e2fsprogs", "fdtget": "device-tree-compiler"}.get(command[0], "mtools")
        raise CommandError(Exit.UNAVAILABLE, f"{command[0]} is missing: apt-get install {package}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        raise CommandError(Exit.NO_INPUT, f"{command[0]}: {said[-1]}")
    return done.stdout
