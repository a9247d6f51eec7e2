"""What a boot looks after whatever the card says: SSH's host keys, and a file system that fills the disk."""

import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.firstboot.actions import GrowFileSystem, GrowPartition, MakeHostKeys, Upkeep

WORTH_IT = 8 << 20
"""Bytes. Below, what is left over is alignment, and the second table of a GPT disk."""

SUPERBLOCK = 2048
"""Bytes of an ext4 up to the end of its superblock."""

_SECTOR = 512  # sysfs counts in these, whatever the disk's own are
_MAGIC, _64_BIT = 0xEF53, 0x80


@dataclass(frozen=True)
class GrowingPartition:
    """The one that is to fill the disk: sizes in bytes, ``room`` behind it up to the next one or the disk's end.

    ``filesystem`` is what ext4 takes of the partition; None if it is no ext4, or cannot be read.
    """

    disk: str
    number: int
    device: str
    size: int
    room: int
    filesystem: int | None


def upkeep(growing: GrowingPartition | None, *, has_host_keys: bool) -> tuple[Upkeep, ...]:
    """The actions, none if all is as it should be; the file system also by itself: power may have gone in between."""
    actions: list[Upkeep] = [] if has_host_keys else [MakeHostKeys()]
    if growing and growing.room >= WORTH_IT:
        actions.append(GrowPartition(growing.disk, growing.number))
    if growing and growing.filesystem is not None and growing.size + growing.room - growing.filesystem >= WORTH_IT:
        actions.append(GrowFileSystem(growing.device))
    return tuple(actions)


def due(root: Path, sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> tuple[Upkeep, ...]:
    """The actions for the running machine: what two roots share (image/make/slots.py) is what grows."""
    data = dev / "tributary/data"
    growing = partition(sys / "class/block" / data.resolve().name, dev) if data.exists() else None
    # A power cut while they are made may leave some empty; ssh-keygen -A makes those anew.
    sizes = [key.stat().st_size for key in (root / "etc/ssh").glob("ssh_host_*_key")]
    return upkeep(growing, has_host_keys=bool(sizes) and all(sizes))


def partition(folder: Path, dev: Path = Path("/dev")) -> GrowingPartition:
    """The partition whose ``folder`` in /sys this is."""
    disk = folder.resolve().parent
    start, size = _number(folder / "start"), _number(folder / "size")
    starts = [_number(other.parent / "start") for other in disk.glob("*/partition")]
    behind = min((other for other in starts if other > start), default=_number(disk / "size"))
    device = dev / folder.name
    filesystem = None
    # A card that is worn out is no reason to leave its settings: they say who may log in, and look at it.
    with suppress(OSError), device.open("rb") as file:
        filesystem = ext4_size(file.read(SUPERBLOCK))
    return GrowingPartition(
        disk=str(dev / disk.name),
        number=_number(folder / "partition"),
        device=str(device),
        size=size * _SECTOR,
        room=(behind - start - size) * _SECTOR,
        filesystem=filesystem,
    )


def _number(path: Path) -> int:
    return int(path.read_text())


def ext4_size(data: bytes) -> int | None:
    """Bytes that the ext4 takes whose first ones are ``data``, up to its SUPERBLOCK's end; None if it is none.

    Source: Documentation/filesystems/ext4/super.rst of the kernel.
    """
    block = data[1024:SUPERBLOCK]
    if len(block) < 1024 or struct.unpack_from("<H", block, 0x38) != (_MAGIC,):
        return None
    low, shift, incompatible, high = (struct.unpack_from("<I", block, at)[0] for at in (0x04, 0x18, 0x60, 0x150))
    blocks = low + (high << 32 if incompatible & _64_BIT else 0)
    return int(blocks << (10 + shift))
