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
    """``start`` and ``size`` in bytes; ``kind`` and ``fields`` as sfdisk(8) takes them; ``name`` as fstab(5) does.

    ``link`` is what it is called in /dev/tributary (image/make/slots.py).
    """

    start: int
    size: int
    kind: str
    name: str
    fields: str = ""
    link: str = ""

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


@dataclass(frozen=True)
class Layout:
    """A disk of ``size`` bytes with the number ``disk``, whose last partition can grow.

    ``other`` is a second root, and ``data`` what both share. ``bios`` is where GRUB lies on a GPT disk.
    """

    size: int
    disk: str
    head: str
    boot: Partition
    root: Partition
    other: Partition
    data: Partition
    bios: Partition | None = None

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


def layout(board: Board, identity: Identity) -> Layout:
    """The disk of ``board``."""
    return _gpt(board, identity) if board.gpt else _mbr(board, identity)


def _gpt(board: Board, identity: Identity) -> Layout:
    first = _FIRST[True]
    bios = _named(first, MIB, _BIOS_BOOT, "bios", identity.bios)
    boot = _named(bios.end, board.boot_bytes, _EFI_SYSTEM, "boot", identity.boot)
    root = _named(boot.end, board.slot_bytes, _LINUX_ROOT_X86_64, "root-a", identity.root)
    other = _named(root.end, board.slot_bytes, _LINUX_ROOT_X86_64, "root-b", identity.other_root)
    data = _named(other.end, _DATA, _LINUX_DATA, "data", identity.data)
    head = f"label: gpt\nlabel-id: {identity.disk}\nfirst-lba: {first // SECTOR}\n"
    return Layout(data.end + _BACKUP, str(identity.disk), head, boot, root, other, data, bios)


def _named(start: int, size: int, kind: str, name: str, number: UUID) -> Partition:
    link = "" if name == "bios" else name
    return Partition(start, size, kind, f"PARTUUID={number}", f', uuid={number}, name="{name}"', link)


def _mbr(board: Board, identity: Identity) -> Layout:
    """The kernel names partitions of an MBR disk by the disk's number and theirs (block/partitions/msdos.c)."""
    number = f"{identity.disk_number:08x}"

    def numbered(start: int, size: int, kind: str, link: str, which: int, fields: str = "") -> Partition:
        return Partition(start, size, kind, f"PARTUUID={number}-{which:02x}", fields, link)

    boot = numbered(_FIRST[False], board.boot_bytes, "c", "boot", 1, ", bootable")
    root = numbered(boot.end, board.slot_bytes, "83", "root-a", 2)
    other = numbered(root.end, board.slot_bytes, "83", "root-b", 3)
    data = numbered(other.end, _DATA, "83", "data", 4)
    return Layout(data.end, number, f"label: dos\nlabel-id: 0x{number}\n", boot, root, other, data)
