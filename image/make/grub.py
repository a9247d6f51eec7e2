"""GRUB for a disk with two slots: its menu, and what a BIOS starts, told where it lies. Pure.

grub-bios-setup(8) would tell it, but asks the running kernel about disks; there is none here, only a file. Offsets are
those of grub-core/boot/i386/pc/boot.S and diskboot.S, and include/grub/i386/pc/boot.h, which do not change: a boot
sector of one version may load an image of another.
"""

from image.firstboot.actions import WriteFile
from image.make import slots
from image.make.layout import Layout
from image.partitions import SECTOR
from image.upgrade.boot_partition import BOOT
from image.upgrade.choice import SLOTS
from image.upgrade.grubenv import NAME
from tributary.settings.errors import CommandError, Exit

FOLDER = "grub"
"""On the boot partition: GRUB's menu, and its variables (image/upgrade/grubenv.py)."""

_TRIES = 3
"""Starts that a slot gets before it has to be found good. More than one: power may go in the middle of one."""
_CODE = 440  # the rest of the sector is the disk's number and the partition table
_KERNEL_SECTOR = 0x5C  # GRUB_BOOT_MACHINE_KERNEL_SECTOR: where core.img begins
_DRIVE_CHECK = 0x66  # GRUB_BOOT_MACHINE_DRIVE_CHECK: a jump that is taken out on hard disks, for BIOSes with a fault
_JUMP, _NOTHING = b"\xeb\x05", b"\x90\x90"
_LIST = SECTOR - 12  # the first block list of diskboot.img, filled from the end: start (8 bytes), length, segment


def rauc(compatible: str) -> WriteFile:
    """RAUC's settings: it writes GRUB's variables by itself."""
    return slots.rauc(compatible, f"bootloader=grub\ngrubenv={BOOT / NAME}")


def early(layout: Layout) -> str:
    """What GRUB does before it has a file system: it finds the boot partition by its number, on whatever disk it is."""
    volume = f"{layout.volume >> 16:04X}-{layout.volume & 0xFFFF:04X}"
    return f"search.fs_uuid {volume} root\nset prefix=($root)/{FOLDER}\n"


def menu(layout: Layout) -> str:
    """GRUB's menu. It belongs to the disk, and stays as it is when a slot is written anew.

    ORDER, and of each slot OK and TRY, are RAUC's (src/bootloaders/grub.c there). GRUB counts in TRY how often a slot
    was started since it was last found good. /vmlinuz and /initrd.img in each slot lead to its newest kernel
    (linux-update-symlinks(1) of Debian).
    """
    choices = "\n".join(_choice(slot) for slot in SLOTS)
    numbers = {link: number for number, link in enumerate(layout.places, start=1)}
    entries = "\n".join(
        _entry(slot, numbers[slots.partition(slot)], words) for slot, _, words in slots.starting(layout)
    )
    return f"""\
# Of the disk. It starts the first slot of ORDER that is good and was not started in vain {_TRIES} times.
set timeout=3
load_env
regexp --set=1:disk "^([^,]+)," "$root"
set chosen=
for slot in $ORDER; do
{choices}
done
if [ -z "$chosen" ]; then
    # None is left: from the beginning again, since a box that starts is better than one that does not.
    for slot in $ORDER; do
        if [ -z "$chosen" ]; then set chosen=$slot; fi
    done
    set A_TRY=0
    set B_TRY=0
fi
save_env A_TRY B_TRY
set default=$chosen

{entries}"""


def _choice(slot: str) -> str:
    name = f"{slot}_TRY"
    counted = "\n".join(
        f'        {"el" if done else ""}if [ "${name}" = "{done}" ]; then set {name}={done + 1}'
        for done in range(_TRIES)
    )
    return f"""\
    if [ "$slot" = "{slot}" -a -z "$chosen" -a "${slot}_OK" = "1" -a "${slot}_TRY" != "{_TRIES}" ]; then
        set chosen={slot}
{counted}
        fi
    fi"""


def _entry(slot: str, number: int, words: str) -> str:
    return f"""\
menuentry "Tributary (slot {slot})" --id {slot} {{
    set root=$disk,gpt{number}
    linux /vmlinuz {words} quiet
    initrd /initrd.img
}}
"""


def boot_code(boot: bytes, first_sector: int) -> bytes:
    """The code of the disk's first sector, 440 bytes, which loads core.img from ``first_sector``."""
    if len(boot) != SECTOR or boot[_DRIVE_CHECK : _DRIVE_CHECK + 2] != _JUMP:
        raise CommandError(Exit.SYSTEM, "boot.img of GRUB is not as this program knows it")
    code = bytearray(boot[:_CODE])
    code[_KERNEL_SECTOR : _KERNEL_SECTOR + 8] = first_sector.to_bytes(8, "little")
    code[_DRIVE_CHECK : _DRIVE_CHECK + 2] = _NOTHING
    return bytes(code)


def core(image: bytes, first_sector: int, room: int) -> bytes:
    """core.img as it lies from ``first_sector`` on, in one piece, in a partition of ``room`` bytes."""
    rest = -(-len(image) // SECTOR) - 1
    if len(image) > room:
        raise CommandError(Exit.SYSTEM, f"core.img of GRUB takes {len(image)} bytes, there is room for {room}")
    if int.from_bytes(image[_LIST + 8 : _LIST + 10], "little") != rest:
        raise CommandError(Exit.SYSTEM, "core.img of GRUB is not as this program knows it")
    placed = bytearray(image)
    placed[_LIST : _LIST + 8] = (first_sector + 1).to_bytes(8, "little")
    return bytes(placed)
