"""What an image for PCs must have: both ways to boot lead to the same menu."""

import re
from collections.abc import Iterator

from image.check.findings import Disk, Finding, found
from image.check.kernel_files import initramfs_flaw, kernel_flaw
from image.check.tables import BIOS_BOOT, EFI_SYSTEM, LINUX_ROOT_X86_64, SECTOR, Table

_LOADER = "EFI/BOOT/BOOTX64.EFI"
_MENU = "/boot/grub/grub.cfg"
_KERNEL_SECTOR = 0x5C  # of GRUB's first sector: where it finds the rest


def partitions(table: Table) -> Iterator[Finding]:
    """A GPT with three partitions of their kinds."""
    kinds = [each.kind for each in table.partitions]
    wanted = [BIOS_BOOT, EFI_SYSTEM, LINUX_ROOT_X86_64]
    yield found("table: GPT", met=table.kind == "gpt", otherwise=table.kind)
    yield found("table: BIOS boot, EFI system, root", met=kinds == wanted, otherwise=", ".join(kinds))


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
    sector = int.from_bytes(first[_KERNEL_SECTOR : _KERNEL_SECTOR + 8], "little")
    following = int.from_bytes(loader[SECTOR - 12 : SECTOR - 4], "little")
    if not disk.table.code or sector * SECTOR != place.start:
        return Finding(what, f"it leads to sector {sector}, the partition begins at {place.start // SECTOR}")
    return found(what, met=following == sector + 1, otherwise=f"what lies there goes on at sector {following}")


def _menu(disk: Disk) -> Iterator[Finding]:
    text = disk.root.read(_MENU).decode()
    what = f"GRUB: {_MENU} names the root"
    yield found(what, met=disk.root_name in text, otherwise=f"it has no {disk.root_name}")
    for word, judge in (("linux", lambda data: kernel_flaw(data, "amd64")), ("initrd", initramfs_flaw)):
        match = re.search(rf"^\s*{word}\s+(\S+)", text, re.MULTILINE)
        path = match[1] if match else ""
        data = disk.root.read(path) if path else b""
        yield Finding(f"GRUB: {path or word}", judge(data) or "" if data else "it is not there")
