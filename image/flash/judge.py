"""May this disk be written? Pure: a description of the machine in, a reason against it out."""

from collections.abc import Iterator
from dataclasses import dataclass

from image.flash.disk import Disk, Machine, Use, device_path
from image.flash.sizes import sized
from tributary.settings.errors import Exit

# Where a running system has itself; the last ones are those of live systems (Debian, Ubuntu, Fedora).
_SYSTEM = (
    *("/", "/usr", "/var", "/boot", "/boot/efi", "/boot/firmware", "/efi"),
    *("/run/live/medium", "/cdrom", "/run/initramfs/live"),
)
_SHOWN = 3  # of many mount points

SECTOR = 512
"""The sector that partition tables of images count in, in bytes."""


@dataclass(frozen=True)
class Refusal:
    """Why not, what would be right, and the exit code that goes with it."""

    code: Exit
    reason: str


def whole_disk(machine: Machine, number: str) -> Disk | Refusal:
    """The disk with this MAJOR:MINOR; a partition is refused, and its disk named."""
    for disk in machine.disks:
        if disk.number == number:
            return disk
        if number in (partition.number for partition in disk.partitions):
            return Refusal(Exit.USAGE, f"a partition, and not a whole disk: accepted: {disk.path}")
    return Refusal(Exit.UNAVAILABLE, f"the kernel lists no block device {number}: `flash-pi --list` shows the disks")


def refusal(machine: Machine, disk: Disk, *, force: bool, needed: int = 0) -> Refusal | None:
    """The first reason against writing ``needed`` bytes to ``disk``; ``force`` sets aside only that it is built in."""
    return next(_reasons(machine, disk, force, needed), None)


def _reasons(machine: Machine, disk: Disk, force: bool, needed: int) -> Iterator[Refusal]:
    yield from _in_use(machine, disk)
    yield from _held(machine, disk)
    if disk.read_only:
        yield Refusal(Exit.UNAVAILABLE, "it is read-only: move the card's lock switch, or see `blockdev --setrw`")
    if disk.sector != SECTOR:
        yield Refusal(Exit.USAGE, f"its sectors have {disk.sector} bytes: images need a disk with sectors of {SECTOR}")
    if not force and not _pluggable(disk):
        yield Refusal(Exit.USAGE, f"it is not removable (bus {disk.bus}): --force writes to it all the same")
    small = too_small(disk, needed)
    if small:
        yield small


def too_small(disk: Disk, needed: int) -> Refusal | None:
    """The reason, if ``disk`` has no room for ``needed`` bytes, or no medium at all."""
    if disk.size == 0:
        return Refusal(Exit.UNAVAILABLE, "there is no card in it")
    if disk.size < needed:
        return Refusal(Exit.USAGE, f"it has {sized(disk.size)}, and the image needs {sized(needed)}: take a larger one")
    return None


def _pluggable(disk: Disk) -> bool:
    """Cards and sticks. An MMC that is not an SD card is soldered in: the own memory of a small machine."""
    return disk.removable or disk.bus == "usb" or (disk.bus == "mmc" and disk.card == "SD")


def _in_use(machine: Machine, disk: Disk) -> Iterator[Refusal]:
    names = set(standing_on(machine, disk))
    uses = [use for use in machine.uses if use.name in names]
    system = next((use for use in uses if use.point in _SYSTEM), None)
    if system:
        yield Refusal(Exit.USAGE, f"the system runs from it ({system.point} is on {_shown(system)}): take another one")
    mounts = [use for use in uses if use.point]
    if mounts:
        where = ", ".join(f"{_shown(use)} at {use.point}" for use in mounts[:_SHOWN])
        more = f" and {len(mounts) - _SHOWN} more" if len(mounts) > _SHOWN else ""
        yield Refusal(Exit.IN_USE, f"it is mounted ({where}{more}): `umount {mounts[0].point}` first")
    if uses:
        yield Refusal(Exit.IN_USE, f"it is used as swap ({_shown(uses[0])}): `swapoff {_shown(uses[0])}` first")


def _shown(use: Use) -> str:
    return device_path(use.name)


def _held(machine: Machine, disk: Disk) -> Iterator[Refusal]:
    above = [name for name in standing_on(machine, disk) if name not in disk.names]
    if above:
        titles = {other.name: other.title for other in machine.disks}
        name = f"{above[0]}, {titles[above[0]]}" if titles.get(above[0]) else above[0]
        yield Refusal(Exit.IN_USE, f"it is part of {name} (LVM, encryption or RAID): stop that first")


def standing_on(machine: Machine, disk: Disk) -> list[str]:
    """The names of ``disk``, its partitions, and all that is stacked on them, however high."""
    known = {other.name: other for other in machine.disks}
    found: list[str] = []
    waiting = [disk.name]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found.append(name)
        here = known.get(name)
        if here:
            found += [partition.name for partition in here.partitions]
            waiting += [*here.holders, *(holder for partition in here.partitions for holder in partition.holders)]
    return found
