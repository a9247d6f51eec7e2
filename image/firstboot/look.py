"""What is so: of a machine that runs, or of a folder that holds a system. Reads, and changes nothing."""

import os
import re
from dataclasses import replace
from pathlib import Path

from image.firstboot import code, superblock
from image.firstboot.actions import ROOT, Owner
from image.firstboot.facts import Condition, Facts, GrowingPartition
from image.firstboot.identity import USER
from image.firstboot.interfaces import Kind, interfaces
from image.firstboot.memory import Memory
from image.firstboot.settings import Role
from tributary.settings.errors import CommandError, Exit

ROLE = Path("usr/lib/tributary/role")
"""The image's role, one word; without this file it is a gateway's."""

_UNITS = ("usr/lib/systemd/system", "etc/systemd/system")
_SECTOR = 512  # sysfs counts in these, whatever the disk's own are


def image_role(root: Path) -> Role:
    """Which role the image below ``root`` was made for; raises CommandError (69) if it says something else."""
    path = root / ROLE
    if not path.exists():
        return Role.GATEWAY
    try:
        return Role(path.read_text().strip())
    except ValueError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{path}: accepted: {' or '.join(Role)}") from error


def facts(root: Path, role: Role, last: Memory, sys: Path = Path("/sys")) -> Facts:
    """What a plan for the system below ``root`` needs; its interfaces are those below ``sys``."""
    home, owner = _account(root / "etc/passwd")
    units = {path.name for folder in _UNITS for path in (root / folder).glob("*.*")}
    return replace(
        assumed(role, sys),
        home=home,
        owner=owner,
        units=frozenset(units),
        code=code.kept(root),
        owned_files=last.files,
        owned_units=last.units,
    )


def assumed(role: Role, sys: Path = Path("/sys")) -> Facts:
    """Of an image, if it ran on this machine: its interfaces, and all units that an image may have."""
    found = interfaces(sys)
    wired = [each for each in found if each.kind is Kind.WIRED]
    return Facts(
        role=role,
        home=f"/home/{USER}",
        owner=ROOT,
        units=None,
        wired=tuple(each.name for each in wired),
        wireless=tuple(each.name for each in found if each.kind is Kind.WIRELESS),
        built_in=tuple(each.name for each in wired if each.built_in),
    )


def _account(path: Path) -> tuple[str, Owner]:
    for line in _text(path).splitlines():
        name, _, user, group, _, home, _ = line.split(":")
        if name == USER:
            return home, Owner(int(user), int(group))
    raise CommandError(Exit.UNAVAILABLE, f"{path}: has no user {USER}: the image has to bring one")


def condition(root: Path, sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> Condition:
    """What of the running machine may need looking after."""
    keys = any((root / "etc/ssh").glob("ssh_host_*_key"))
    return Condition(keys, growing(Path("/proc/cmdline").read_text(), root.stat().st_dev, sys, dev))


def growing(cmdline: str, mounted: int, sys: Path, dev: Path) -> GrowingPartition | None:
    """The partition that fills the disk: what two roots share (image/make/slots.py), or else the only root."""
    data = dev / "tributary/data"
    if data.exists():
        return _partition((sys / "class/block" / data.resolve().name).resolve(), dev)
    return root_partition(cmdline, mounted, sys, dev)


def root_partition(cmdline: str, mounted: int, sys: Path, dev: Path) -> GrowingPartition | None:
    """The partition that the kernel's ``cmdline`` names by PARTUUID, else that of the device number ``mounted``.

    None if / is not on a partition of a disk.
    """
    node = _named(cmdline, dev) or sys / "dev/block" / f"{os.major(mounted)}:{os.minor(mounted)}"
    folder = (sys / "class/block" / node.name if node.is_relative_to(dev) else node).resolve()
    if not (folder / "partition").exists():
        return None
    return _partition(folder, dev)


def _named(cmdline: str, dev: Path) -> Path | None:
    match = re.search(r"(?:^|\s)root=PARTUUID=([0-9A-Fa-f-]+)(?:\s|$)", cmdline)
    link = dev / "disk/by-partuuid" / match[1].lower() if match else None
    return link.resolve() if link is not None and link.exists() else None


def _partition(folder: Path, dev: Path) -> GrowingPartition:
    disk = folder.parent
    start, size = _number(folder / "start"), _number(folder / "size")
    starts = [_number(other.parent / "start") for other in disk.glob("*/partition")]
    behind = min((other for other in starts if other > start), default=_number(disk / "size"))
    device = dev / folder.name
    return GrowingPartition(
        disk=str(dev / disk.name),
        number=_number(folder / "partition"),
        device=str(device),
        size=size * _SECTOR,
        room=(behind - start - size) * _SECTOR,
        filesystem=superblock.size(_beginning(device)),
    )


def _beginning(device: Path) -> bytes:
    with device.open("rb") as file:
        return file.read(superblock.NEEDED)


def _number(path: Path) -> int:
    return int(_text(path))


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
