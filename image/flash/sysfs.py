"""Reads what a machine says of its disks: sysfs, the table of mounts, udev's labels. Only looks, and needs no root."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from image.flash import tables
from image.flash.disk import Disk, Machine, Partition, Use

_SECTOR = 512  # sysfs counts in these, whatever the device has (sysfs-block, size)

# A part of a device's path in sysfs, and the bus that it stands for; the first one that fits counts, for a USB stick is
# a SCSI disk as well.
_BUSES = (
    (r"/virtual/", "virtual"),
    (r"/usb\d", "usb"),
    (r"/mmc_host/", "mmc"),
    (r"/nvme\d", "nvme"),
    (r"/ata\d", "ata"),
    (r"/virtio\d", "virtio"),
)


@dataclass(frozen=True)
class Roots:
    """Where to look; a test gives folders of its own."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    udev: Path = Path("/run/udev/data")


def read(roots: Roots) -> Machine:
    """All block devices, and which of them are mounted or swap. What vanishes in between has a size of 0."""
    disks = tuple(_disk(roots, folder) for folder in sorted((roots.sys / "block").iterdir()))
    return Machine(disks, tuple(sorted(_uses(roots, disks), key=lambda use: (use.name, use.point))))


def _disk(roots: Roots, folder: Path) -> Disk:
    device = folder / "device"
    vendor = _text(device / "vendor")
    bus = _bus(str(folder.resolve()).removeprefix(str(roots.sys.resolve())))
    return Disk(
        name=folder.name,
        number=_text(folder / "dev"),
        sequence=_number(folder / "diskseq"),
        size=_number(folder / "size") * _SECTOR,
        sector=_number(folder / "queue/logical_block_size") or _SECTOR,
        bus=bus,
        card=_text(device / "type") if bus == "mmc" else "",
        vendor="" if vendor.startswith("0x") else vendor,  # the number of a PCI or virtio vendor, which says nothing
        model=_text(device / "model") or _text(device / "name") or _text(folder / "dm/name"),
        removable=_number(folder / "removable") == 1,
        read_only=_number(folder / "ro") == 1,
        holders=_names(folder / "holders"),
        partitions=tuple(_partition(roots, path.parent) for path in sorted(folder.glob("*/partition"), key=_number)),
    )


def _partition(roots: Roots, folder: Path) -> Partition:
    number = _text(folder / "dev")
    known = _udev(roots.udev / f"b{number}")
    return Partition(
        name=folder.name,
        number=number,
        size=_number(folder / "size") * _SECTOR,
        holders=_names(folder / "holders"),
        label=known.get("ID_FS_LABEL", ""),
        filesystem=known.get("ID_FS_TYPE", ""),
    )


def _bus(path: str) -> str:
    return next((bus for part, bus in _BUSES if re.search(part, path)), "scsi")


def _udev(record: Path) -> Mapping[str, str]:
    """What udev found out about a device: lines ``E:KEY=VALUE``. A machine without udev knows no labels."""
    pairs = (line[2:].partition("=") for line in _text(record).splitlines() if line.startswith("E:"))
    return {key: value for key, _, value in pairs}


def _uses(roots: Roots, disks: tuple[Disk, ...]) -> set[Use]:
    groups = [frozenset(_names(folder)) for folder in sorted((roots.sys / "fs/btrfs").glob("*/devices"))]
    numbers = {number: name for disk in disks for number, name in _numbers(disk)}
    found = {Use(_device_name(roots.dev, path), "") for path in tables.swaps(_text(roots.proc / "swaps"))}
    for mount in tables.mounts(_text(roots.proc / "self/mountinfo")):
        # btrfs, bcachefs and ZFS give a number of no device, so that the source counts as well; bcachefs joins several.
        names = {_device_name(roots.dev, source) for source in mount.source.split(":")}
        names.add(numbers.get(mount.number, ""))
        # Of a btrfs on several devices the table names one (sysfs-fs-btrfs).
        names.update(*(group for group in groups if group & names))
        found |= {Use(name, mount.point) for name in names}
    known = set(numbers.values())
    return {use for use in found if use.name in known}


def _numbers(disk: Disk) -> Iterator[tuple[str, str]]:
    yield disk.number, disk.name
    yield from ((partition.number, partition.name) for partition in disk.partitions)


def _device_name(dev: Path, path: str) -> str:
    """The kernel's name of the device at ``path``, through links like those in /dev/mapper; empty for other paths."""
    if not path.startswith("/dev/"):
        return ""
    real, root = (dev / path.removeprefix("/dev/")).resolve(), dev.resolve()
    return str(real.relative_to(root)).replace("/", "!") if real.is_relative_to(root) else ""


def _names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()


def _text(path: Path) -> str:
    """A file's text without white space around it; empty if it is not there: each kind of device has its own files."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdecimal() else 0
