"""What is made, and where its partitions lie on the disk, with the numbers by which they are found. Pure."""

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID, uuid5

from image.make.boards import MIB, Board, Role
from image.partitions import BIOS_BOOT, EFI_SYSTEM, FAT32, LINUX, LINUX_DATA, LINUX_ROOT_X86_64, SECTOR

_NAMESPACE = UUID("6f2f6c1e-6a0a-5c0e-9f0e-5452494255a1")
_FIRST = {True: 1 * MIB, False: 4 * MIB}  # 4 MiB: where cards' own erase blocks begin
_BACKUP = 1 * MIB  # the second table of a GPT
_DATA = 64 * MIB  # until the first boot has grown it


@dataclass(frozen=True)
class Partition:
    """``start`` and ``size`` in bytes; ``kind`` and ``fields`` as sfdisk(8) takes them; ``name`` as fstab(5) does.

    ``filesystem`` is the number of the file system there.
    """

    start: int
    size: int
    kind: str
    name: str
    fields: str
    filesystem: UUID


@dataclass(frozen=True)
class Layout:
    """A disk of ``size`` bytes with the number ``disk``; ``places`` are its partitions, of which the last can grow.

    Their names are those in /dev/tributary (image/make/slots.py); "bios" is where GRUB lies on a GPT disk.
    """

    size: int
    disk: str
    head: str
    places: dict[str, Partition]

    @property
    def volume(self) -> int:
        """The boot partition's number, as FAT has it."""
        return self.places["boot"].filesystem.time_low or 1

    @property
    def numbers(self) -> dict[str, int]:
        """Of the partitions, by their names."""
        return {link: number for number, link in enumerate(self.places, start=1)}

    def script(self) -> str:
        lines = [
            f"start={each.start // SECTOR}, size={each.size // SECTOR}, type={each.kind}{each.fields}\n"
            for each in self.places.values()
        ]
        return f"{self.head}unit: sectors\n\n{''.join(lines)}"


def layout(board: Board, image: str) -> Layout:
    """The disk of ``board`` for the ``image`` of this name: the same one has the same numbers."""

    def number(what: str) -> UUID:
        return uuid5(_NAMESPACE, f"{image}/{what}")

    wanted = {
        **({"bios": (MIB, BIOS_BOOT)} if board.gpt else {}),
        "boot": (board.boot_bytes, EFI_SYSTEM if board.gpt else FAT32),
        "root-a": (board.slot_bytes, LINUX_ROOT_X86_64 if board.gpt else LINUX),
        "root-b": (board.slot_bytes, LINUX_ROOT_X86_64 if board.gpt else LINUX),
        "data": (_DATA, LINUX_DATA if board.gpt else LINUX),
    }
    # Of an MBR, 0 would say that there is none.
    disk = str(number("disk")) if board.gpt else f"{number('disk').time_low or 1:08x}"
    start, places = _FIRST[board.gpt], dict[str, Partition]()
    for which, (link, (size, kind)) in enumerate(wanted.items(), start=1):
        if board.gpt:
            name, fields = str(number(link)), f', uuid={number(link)}, name="{link}"'
        else:  # the kernel names these by the disk's number and theirs (block/partitions/msdos.c)
            name, fields = f"{disk}-{which:02x}", ", bootable" if link == "boot" else ""
        places[link] = Partition(start, size, kind, f"PARTUUID={name}", fields, number(f"{link} file system"))
        start += size
    if board.gpt:
        head = f"label: gpt\nlabel-id: {disk}\nfirst-lba: {_FIRST[True] // SECTOR}\n"
        return Layout(start + _BACKUP, disk, head, places)
    return Layout(start, disk, f"label: dos\nlabel-id: 0x{disk}\n", places)


@dataclass(frozen=True)
class Spec:
    """An image of this ``name``; nothing in it is younger than ``seconds`` since 1970.

    ``trusted`` are certificates in PEM, of those whose upgrades it accepts; empty if nobody's.
    """

    board: Board
    role: Role
    name: str
    seconds: int
    trusted: str = ""

    @cached_property
    def layout(self) -> Layout:
        return layout(self.board, self.name)

    @property
    def compatible(self) -> str:
        """For which images an upgrade is made, as RAUC compares it."""
        return f"tributary-{self.board.kind(self.role)}"
