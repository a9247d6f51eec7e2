"""The machine's disks, as lsblk(8) shows them, and what speaks against writing one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image.partitions import SECTOR
from tributary.daemons.logs import printable
from tributary.daemons.text import scaled
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

_COLUMNS = "NAME,PATH,PKNAME,MAJ:MIN,TYPE,SIZE,LOG-SEC,TRAN,SUBSYSTEMS,RM,RO,VENDOR,MODEL,LABEL,FSTYPE,MOUNTPOINTS"
# Where a running system has itself; the last ones are those of live systems (Debian, Ubuntu, Fedora).
_SYSTEM = (
    *("/", "/usr", "/var", "/boot", "/boot/efi", "/boot/firmware", "/efi"),
    *("/run/live/medium", "/cdrom", "/run/initramfs/live"),
)
_SWAP = "[SWAP]"
_SHOWN = 3  # of many mount points
_SYSFS = Path("/sys/dev/block")


@dataclass(frozen=True)
class Device:
    """A line of lsblk, and those of what stands on it: partitions, LVM, encryption, RAID."""

    row: dict[str, Any]

    @property
    def path(self) -> str:
        return str(self.row["path"])

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def size(self) -> int:
        """In bytes; 0 without a medium."""
        return int(self.row["size"] or 0)

    @property
    def children(self) -> tuple["Device", ...]:
        return tuple(Device(row) for row in self.row.get("children", ()))

    @property
    def all(self) -> Iterator["Device"]:
        """It, and all that stands on it, however high."""
        yield self
        for child in self.children:
            yield from child.all

    @property
    def mounts(self) -> tuple[str, ...]:
        """Where it is mounted; swap is mounted at ``[SWAP]``."""
        return tuple(point for point in self.row["mountpoints"] if point)

    @property
    def bus(self) -> str:
        """Such as usb, mmc, sata, nvme; virtual for what is no hardware. A USB stick is a SCSI disk as well."""
        path = str(self.row["subsystems"] or "block").split(":")
        plugged = next((bus for bus in ("usb", "mmc") if bus in path), None)
        return plugged or self.row["tran"] or (path[1] if len(path) > 1 else "virtual")

    @property
    def title(self) -> str:
        """Vendor and model, as far as they are known; a PCI or virtio vendor's number says nothing."""
        vendor = (self.row["vendor"] or "").strip()
        return f"{'' if vendor.startswith('0x') else vendor} {(self.row['model'] or '').strip()}".strip()

    @property
    def medium(self) -> str:
        """Another one after each change of the medium (sysfs-block, diskseq)."""
        folder = _SYSFS / str(self.row["maj:min"])
        try:
            return f"{(folder / 'diskseq').read_text()}{(folder / 'size').read_text()}"
        except OSError:  # it is gone
            return ""

    @property
    def forgets(self) -> bool:
        """Whether it takes bytes for zeros by itself, which takes no time; readers at USB do not."""
        path = _SYSFS / str(self.row["maj:min"]) / "queue/write_zeroes_max_bytes"
        return path.exists() and path.read_text().strip() != "0"

    def facts(self) -> dict[str, Any]:
        """For a program."""
        partitions = [
            {"path": part.path, "bytes": part.size, "label": part.row["label"], "filesystem": part.row["fstype"]}
            for part in self.children
        ]
        about = {"path": self.path, "title": self.title, "bytes": self.size, "bus": self.bus}
        return {**about, "removable": bool(self.row["rm"]), "partitions": partitions}

    def lines(self) -> list[str]:
        """For a person: a line for it and one for each partition."""
        removable = ", removable" if self.row["rm"] else ""
        lines = [f"{self.path}: {self.title or 'unknown make'}, {scaled(self.size, 'B')}, bus {self.bus}{removable}"]
        for part in self.children:
            label = f'"{part.row["label"]}"' if part.row["label"] else "no label"
            holds = part.row["fstype"] or "unknown contents"
            lines.append(f"  {part.path}: {scaled(part.size, 'B')}, {holds}, {label}")
        return [printable(line) for line in lines]  # labels come from whoever made the card


def every() -> list[Device]:
    """The disks that a person can touch, those that may be written first."""
    touched = [disk for disk in map(Device, _lsblk()) if disk.bus != "virtual"]
    return sorted(touched, key=lambda disk: (refusal(disk, force=False) is not None, disk.name))


def at(path: Path) -> Device:
    """The whole disk at ``path``, also through links; raises CommandError (64, 69)."""
    if not path.exists():
        raise CommandError(Exit.UNAVAILABLE, f"{path}: No such file or directory: `flash-pi --list` shows the disks")
    if not path.is_block_device():
        raise CommandError(Exit.USAGE, f"{path}: not a block device: accepted: a whole disk, such as /dev/sdb")
    disk = Device(_lsblk(str(path.resolve()))[0])
    if disk.row["pkname"]:
        accepted = f"/dev/{disk.row['pkname']}"
        raise CommandError(Exit.USAGE, f"{path}: a partition, and not a whole disk: accepted: {accepted}")
    return disk


def _lsblk(*device: str) -> list[dict[str, Any]]:
    done = process.run(["lsblk", "--json", "--bytes", "--all", "--output", _COLUMNS, *device])
    if done.returncode != 0:
        raise CommandError(Exit.UNAVAILABLE, f"lsblk: {done.stderr.strip()}: `flash-pi --list` shows the disks")
    found: list[dict[str, Any]] = json.loads(done.stdout)["blockdevices"]
    return found


def refusal(disk: Device, *, force: bool, needed: int = 0) -> CommandError | None:
    """The first reason against writing ``needed`` bytes to ``disk``; ``force`` sets aside only that it is built in."""
    return next(_reasons(disk, force, needed), None)


def _reasons(disk: Device, force: bool, needed: int) -> Iterator[CommandError]:
    yield from _in_use(disk)
    if disk.row["ro"]:
        yield CommandError(Exit.UNAVAILABLE, "it is read-only: move the card's lock switch, or see `blockdev --setrw`")
    if disk.row["log-sec"] != SECTOR:
        sectors = disk.row["log-sec"]
        yield CommandError(Exit.USAGE, f"its sectors have {sectors} bytes: images need a disk with sectors of {SECTOR}")
    if not force and not _pluggable(disk):
        yield CommandError(Exit.USAGE, f"it is not removable (bus {disk.bus}): --force writes to it all the same")
    if small := too_small(disk, needed):
        yield small


def too_small(disk: Device, needed: int) -> CommandError | None:
    """The reason, if ``disk`` has no room for ``needed`` bytes, or no medium at all."""
    if disk.size == 0:
        return CommandError(Exit.UNAVAILABLE, "there is no card in it")
    if disk.size < needed:
        return CommandError(
            Exit.USAGE, f"it has {scaled(disk.size, 'B')}, and the image needs {scaled(needed, 'B')}: take a larger one"
        )
    return None


def _pluggable(disk: Device) -> bool:
    """Cards and sticks. An MMC that is not an SD card is soldered in: the own memory of a small machine."""
    if disk.bus == "mmc":
        kind = _SYSFS / str(disk.row["maj:min"]) / "device/type"
        return kind.exists() and kind.read_text().strip() == "SD"
    return bool(disk.row["rm"]) or disk.bus == "usb"


def _in_use(disk: Device) -> Iterator[CommandError]:
    mounts = [(each.path, point) for each in disk.all for point in each.mounts if point != _SWAP]
    swaps = [each.path for each in disk.all if _SWAP in each.mounts]
    for path, point in mounts:
        if point in _SYSTEM:
            yield CommandError(Exit.USAGE, f"the system runs from it ({point} is on {path}): take another one")
    if mounts:
        where = ", ".join(f"{path} at {point}" for path, point in mounts[:_SHOWN])
        more = f" and {len(mounts) - _SHOWN} more" if len(mounts) > _SHOWN else ""
        yield CommandError(Exit.IN_USE, f"it is mounted ({where}{more}): `umount {mounts[0][1]}` first")
    if swaps:
        yield CommandError(Exit.IN_USE, f"it is used as swap ({swaps[0]}): `swapoff {swaps[0]}` first")
    for each in disk.all:
        if each.row["type"] != "part" and each.path != disk.path:
            yield CommandError(Exit.IN_USE, f"it is part of {each.path} ({each.row['type']}): stop that first")
