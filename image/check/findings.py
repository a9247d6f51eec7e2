"""What was looked at, and whether it is as it should be; and the image's parts, for those who look."""

from dataclasses import dataclass
from pathlib import Path

from image.check.filesystems import Ext4, Fat
from image.firstboot.settings import Role
from image.partitions import EFI_SYSTEM, FAT32, LINUX, LINUX_ROOT_X86_64, Table


@dataclass(frozen=True)
class Finding:
    """``what`` was looked at; ``wrong`` says what is the matter, empty if nothing is."""

    what: str
    wrong: str = ""

    @property
    def fine(self) -> bool:
        """Whether it is as it should be."""
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
        """The system."""
        return Ext4(self.image, self.table.of(LINUX_ROOT_X86_64, LINUX)[0].start)

    @property
    def data(self) -> Ext4:
        """What two slots share: the last partition."""
        return Ext4(self.image, self.table.partitions[-1].start)
