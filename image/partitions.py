"""The partition table of a disk image, as sfdisk(8) reads it."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from tributary.kernel import process

SECTOR = 512
HEAD = 34 * SECTOR
"""The bytes that a table takes at most: a GPT's header and its 128 entries."""

EFI_SYSTEM = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
BIOS_BOOT = "21686148-6449-6e6f-744e-656564454649"
LINUX_ROOT_X86_64 = "4f68bce3-e8cd-4db1-96e7-fbcaf984b709"
LINUX_DATA = "0fc63daf-8483-4772-8e79-3d69d8477de4"
FAT32, LINUX = "c", "83"
_PROTECTIVE = "ee"  # sfdisk shows it only where the GPT that it stands for cannot be read


@dataclass(frozen=True)
class Partition:
    """``kind`` is its type, hexadecimal digits or a UUID; ``name`` its PARTUUID; sizes in bytes."""

    number: int
    kind: str
    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Table:
    """``kind`` is 'gpt' or 'dos'; partitions are those in use, by number."""

    kind: str
    partitions: tuple[Partition, ...]

    def of(self, *kinds: str) -> list[Partition]:
        return [each for each in self.partitions if each.kind in kinds]


def of_head(head: bytes, size: int) -> Table:
    """The table of a disk of ``size`` bytes that begins with ``head``; raises as ``read`` does, also if it is cut
    short."""
    with NamedTemporaryFile(prefix="partitions-") as file:
        file.write(head)
        file.flush()
        os.truncate(file.name, size)
        table = read(Path(file.name))
    end = max(each.start + each.size for each in table.partitions)
    if size % SECTOR or end > size:
        raise ValueError(f"it is cut short: it has {size} bytes, and its partitions end at {end}")
    return table


def read(image: Path) -> Table:
    """The table of ``image``; raises ValueError if it has none, or CommandError (69) without sfdisk."""
    done = process.run(["sfdisk", "--json", str(image)])
    if done.returncode != 0:
        raise ValueError("it has no partition table")
    table = json.loads(done.stdout)["partitiontable"]
    partitions = tuple(_partition(each, table["id"]) for each in table.get("partitions", ()))
    if not partitions:  # the boot sector of a file system ends as an MBR does
        raise ValueError("it has no partition table")
    if any(each.kind == _PROTECTIVE for each in partitions):
        raise ValueError("its partition table is damaged")
    return Table(table["label"], partitions)


def _partition(found: dict[str, str | int], disk: str) -> Partition:
    """The kernel names those of an MBR by the disk's number and their own (block/partitions/msdos.c)."""
    digits = str(found["node"])
    number = int(digits[len(digits.rstrip("0123456789")) :])
    name = str(found.get("uuid", "")).lower() or f"{disk.removeprefix('0x')}-{number:02x}"
    return Partition(
        number, str(found["type"]).lower(), name, int(found["start"]) * SECTOR, int(found["size"]) * SECTOR
    )
