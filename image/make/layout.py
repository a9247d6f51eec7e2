"""Where partitions lie on the disk, and by what names they are found. Pure."""

from dataclasses import dataclass
from uuid import UUID

from image.make.boards import MIB, Board
from image.make.identity import Identity

SECTOR = 512
_FIRST = {True: 1 * MIB, False: 4 * MIB}  # 4 MiB: where cards' own erase blocks begin
_BACKUP = 1 * MIB  # the second table of a GPT
_DATA = 64 * MIB  # until the first boot has grown it

# Types of partitions: the Discoverable Partitions Specification (UAPI), UEFI specification 2.10 section 5.3.3, and
# GRUB's manual for the first. Of MBR: 0c is FAT32 by block number, 83 Linux.
_BIOS_BOOT = "21686148-6449-6E6F-744E-656564454649"
_EFI_SYSTEM = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
_LINUX_ROOT_X86_64 = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
_LINUX_DATA = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"


@dataclass(frozen=True)
class Partition:
    """``start`` and ``size`` in bytes; ``kind`` and ``fields`` as sfdisk(8) takes them; ``name`` as fstab(5) does."""

    start: int
    size: int
    kind: str
    name: str
    fields: str = ""

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


@dataclass(frozen=True)
class Layout:
    """A disk of ``size`` bytes, whose last partition can grow.

    ``bios`` is where GRUB lies on a GPT disk. A disk that can be upgraded has ``other``, a second root, and ``data``,
    which both roots share.
    """

    size: int
    head: str
    boot: Partition
    root: Partition
    bios: Partition | None = None
    other: Partition | None = None
    data: Partition | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """In their order."""
        given = (self.bios, self.boot, self.root, self.other, self.data)
        return tuple(each for each in given if each is not None)

    def script(self) -> str:
        """What sfdisk(8) reads."""
        lines = [
            f"start={each.start // SECTOR}, size={each.size // SECTOR}, type={each.kind}{each.fields}"
            for each in self.partitions
        ]
        return f"{self.head}unit: sectors\n\n" + "".join(f"{line}\n" for line in lines)


def layout(board: Board, identity: Identity, root_bytes: int) -> Layout:
    """The disk of ``board`` with a root file system of ``root_bytes``, a multiple of 1 MiB.

    The slots of a board that has two are as large as the board says, and no smaller than that.
    """
    return _gpt(board, identity, board.slot_bytes or root_bytes) if board.gpt else _mbr(board, identity, root_bytes)


def _gpt(board: Board, identity: Identity, root_bytes: int) -> Layout:
    """Names are those of links in /dev/tributary (image/make/slots.py)."""
    first = _FIRST[True]
    bios = _named(first, MIB, _BIOS_BOOT, "bios", identity.bios)
    boot = _named(bios.end, board.boot_bytes, _EFI_SYSTEM, "boot", identity.boot)
    root = _named(boot.end, root_bytes, _LINUX_ROOT_X86_64, "root-a", identity.root)
    other = _named(root.end, root_bytes, _LINUX_ROOT_X86_64, "root-b", identity.other_root)
    data = _named(other.end, _DATA, _LINUX_DATA, "data", identity.data)
    head = f"label: gpt\nlabel-id: {identity.disk}\nfirst-lba: {first // SECTOR}\n"
    return Layout(data.end + _BACKUP, head, boot, root, bios, other, data)


def _named(start: int, size: int, kind: str, name: str, number: UUID) -> Partition:
    return Partition(start, size, kind, f"PARTUUID={number}", f', uuid={number}, name="{name}"')


def _mbr(board: Board, identity: Identity, root_bytes: int) -> Layout:
    """The kernel names partitions of an MBR disk by the disk's number and theirs (block/partitions/msdos.c)."""
    number = f"{identity.disk_number:08x}"
    boot = Partition(_FIRST[False], board.boot_bytes, "c", f"PARTUUID={number}-01", ", bootable")
    root = Partition(boot.end, root_bytes, "83", f"PARTUUID={number}-02")
    return Layout(root.end, f"label: dos\nlabel-id: 0x{number}\n", boot, root)
