"""What was looked at, and whether it is as it should be; and the image's parts, for those who look.

Files in a FAT are read by mtools(1), those in an ext4 by debugfs(8), each told where in the image it begins.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from image.firstboot.settings import Role
from image.partitions import EFI_SYSTEM, FAT32, LINUX, LINUX_ROOT_X86_64, Table
from tributary.kernel.process import require
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

    def flaw(self) -> str:
        """What is wrong with the file system itself; empty if it can be read."""
        shown = self._ask("show_super_stats -h").decode(errors="replace")
        return "" if re.search(r"^Filesystem state:\s+clean$", shown, re.MULTILINE) else "no clean ext4 file system"

    def _ask(self, request: str) -> bytes:
        return run("debugfs", "-R", request, f"{self.image}?offset={self.start}")


def run(*command: str, given: bytes = b"") -> bytes:
    """What ``command`` prints, with ``given`` on its standard input; raises CommandError (66, 69)."""
    require(command[0])
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        raise CommandError(Exit.NO_INPUT, f"{command[0]}: {said[-1]}")
    return done.stdout


@dataclass(frozen=True)
class Finding:
    """``what`` was looked at; ``wrong`` says what is the matter, empty if nothing is."""

    what: str
    wrong: str = ""

    @property
    def fine(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        return f"{self.what}: {self.wrong}" if self.wrong else self.what


def found(what: str, *, met: bool, otherwise: str) -> Finding:
    """``otherwise`` says what is the matter unless the condition is ``met``."""
    return Finding(what, "" if met else otherwise)


@dataclass(frozen=True)
class Disk:
    """An image for the ``role`` and the ``architecture``, its table, and the file systems on its partitions."""

    image: Path
    table: Table
    role: Role
    architecture: str

    @property
    def boot(self) -> Fat:
        """What people see when they put the card into their computer."""
        return Fat(self.image, self.table.of(EFI_SYSTEM, FAT32)[0].start)

    @property
    def root(self) -> Ext4:
        return Ext4(self.image, self.table.of(LINUX_ROOT_X86_64, LINUX)[0].start)

    @property
    def data(self) -> Ext4:
        """What two slots share: the last partition."""
        return Ext4(self.image, self.table.partitions[-1].start)
