"""What was looked at, and whether it is as it should be; and the image's parts, for those who look."""

from dataclasses import dataclass
from pathlib import Path

from image.check.filesystems import Ext4, Fat
from image.partitions import Partition, Table


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
    """An image for a ``board``: its table, its boot and root partitions, and the file systems on them."""

    image: Path
    table: Table
    boot_partition: Partition
    root_partition: Partition

    @property
    def boot(self) -> Fat:
        """What people see when they put the card into their computer."""
        return Fat(self.image, self.boot_partition.start)

    @property
    def root(self) -> Ext4:
        """The system."""
        return Ext4(self.image, self.root_partition.start)

    @property
    def data(self) -> Ext4:
        """What two slots share; of a disk that has slots, the last partition."""
        return Ext4(self.image, self.table.partitions[-1].start)
