"""GRUB for a disk with two slots: what a BIOS starts, told where it lies. Pure.

grub-bios-setup(8) would tell it, but asks the running kernel about disks; there is none here, only a file. Offsets are
those of grub-core/boot/i386/pc/boot.S and diskboot.S, and include/grub/i386/pc/boot.h, which do not change: a boot
sector of one version may load an image of another.
"""

from image.make.layout import Layout
from image.partitions import SECTOR
from tributary.settings.errors import CommandError, Exit

FOLDER = "grub"
"""On the boot partition: GRUB's menu, and its variables (image/upgrade/grubenv.py)."""

_CODE = 440  # the rest of the sector is the disk's number and the partition table
KERNEL_SECTOR = 0x5C  # GRUB_BOOT_MACHINE_KERNEL_SECTOR: where core.img begins
_DRIVE_CHECK = 0x66  # GRUB_BOOT_MACHINE_DRIVE_CHECK: a jump that is taken out on hard disks, for BIOSes with a fault
_JUMP, _NOTHING = b"\xeb\x05", b"\x90\x90"
LIST = SECTOR - 12  # the first block list of diskboot.img, filled from the end: start (8 bytes), length, segment


def early(layout: Layout) -> str:
    """What GRUB does before it has a file system: it finds the boot partition by its number, on whatever disk it is."""
    volume = f"{layout.volume >> 16:04X}-{layout.volume & 0xFFFF:04X}"
    return f"search.fs_uuid {volume} root\nset prefix=($root)/{FOLDER}\n"


def boot_code(boot: bytes, first_sector: int) -> bytes:
    """The code of the disk's first sector, 440 bytes, which loads core.img from ``first_sector``."""
    if len(boot) != SECTOR or boot[_DRIVE_CHECK : _DRIVE_CHECK + 2] != _JUMP:
        raise CommandError(Exit.SYSTEM, "boot.img of GRUB is not as this program knows it")
    code = bytearray(boot[:_CODE])
    code[KERNEL_SECTOR : KERNEL_SECTOR + 8] = first_sector.to_bytes(8, "little")
    code[_DRIVE_CHECK : _DRIVE_CHECK + 2] = _NOTHING
    return bytes(code)


def core(image: bytes, first_sector: int, room: int) -> bytes:
    """core.img as it lies from ``first_sector`` on, in one piece, in a partition of ``room`` bytes."""
    rest = -(-len(image) // SECTOR) - 1
    if len(image) > room:
        raise CommandError(Exit.SYSTEM, f"core.img of GRUB takes {len(image)} bytes, there is room for {room}")
    if int.from_bytes(image[LIST + 8 : LIST + 10], "little") != rest:
        raise CommandError(Exit.SYSTEM, "core.img of GRUB is not as this program knows it")
    placed = bytearray(image)
    placed[LIST : LIST + 8] = (first_sector + 1).to_bytes(8, "little")
    return bytes(placed)
