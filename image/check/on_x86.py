"""What an image for PCs must have: both ways to boot lead to the same menu, and that to two slots."""

from collections.abc import Iterator

from image.check.findings import Disk, Finding, found
from image.make.grub import KERNEL_SECTOR, LIST
from image.partitions import BIOS_BOOT, EFI_SYSTEM, LINUX_DATA, LINUX_ROOT_X86_64, SECTOR
from image.upgrade import grubenv

ARCHITECTURE = "amd64"
TABLE, LABEL = "GPT", "gpt"
PARTITIONS = "BIOS boot, EFI system, two roots, data"
KINDS = [BIOS_BOOT, EFI_SYSTEM, LINUX_ROOT_X86_64, LINUX_ROOT_X86_64, LINUX_DATA]

_LOADER = "EFI/BOOT/BOOTX64.EFI"
_MENU, _ENVIRONMENT = "grub/grub.cfg", grubenv.NAME


def boot(disk: Disk) -> Iterator[Finding]:
    """GRUB for BIOS and for UEFI, and a menu that names what is there."""
    yield _bios(disk)
    there = _LOADER in disk.boot.names()
    yield found(
        f"UEFI: {_LOADER}", met=there and disk.boot.read(_LOADER).startswith(b"MZ"), otherwise="no program for UEFI"
    )
    yield from _menu(disk)


def _bios(disk: Disk) -> Finding:
    what = "BIOS: the first sector leads to GRUB in its partition"
    place = disk.table.partitions[0]
    with disk.image.open("rb") as file:
        first = file.read(SECTOR)
        file.seek(place.start)
        loader = file.read(SECTOR)
    sector = int.from_bytes(first[KERNEL_SECTOR : KERNEL_SECTOR + 8], "little")
    following = int.from_bytes(loader[LIST : LIST + 8], "little")
    if not any(first[:440]) or sector * SECTOR != place.start:
        return Finding(what, f"it leads to sector {sector}, the partition begins at {place.start // SECTOR}")
    return found(what, met=following == sector + 1, otherwise=f"what lies there goes on at sector {following}")


def _menu(disk: Disk) -> Iterator[Finding]:
    there = disk.boot.names()
    if not {_MENU, _ENVIRONMENT} <= there:
        yield Finding(f"GRUB: {_MENU} and {_ENVIRONMENT}", "missing on the boot partition")
        return
    text = disk.boot.read(_MENU).decode()
    for slot in disk.table.of(LINUX_ROOT_X86_64):
        words = (f"set root=$disk,gpt{slot.number}\n", f" root=PARTUUID={slot.name} ")
        missing = [word.strip() for word in words if word not in text]
        yield found(f"GRUB: {_MENU} names partition {slot.number}", met=not missing, otherwise=f"it has no {missing}")
    variables = disk.boot.read(_ENVIRONMENT)
    first = grubenv.is_whole(variables) and b"\nORDER=A B\nA_OK=1\nA_TRY=0\n" in variables
    yield found("GRUB: its variables let slot A start", met=first, otherwise=f"{variables[:100]!r}")
