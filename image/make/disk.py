"""A root as a disk: partition table, both file systems, and what a BIOS starts, all written into one file.

Nothing is mounted and no device is needed: each tool is told where in the file its partition begins.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from image.make import grub, lock, slots
from image.make.boards import MIB
from image.make.command import Runner
from image.make.layout import Partition, Spec
from image.make.root import FIRMWARE, GRUB, new_folder, unpack
from image.partitions import SECTOR
from tributary.settings.errors import CommandError, Exit

DISK, MANIFEST = "disk.img", "manifest.txt"
LABEL, ROOT_LABEL, DATA_LABEL = "TRIBUTARY", "tributary-root", "tributary-data"

_BLOCK = 4096
_FREE = 384 * MIB  # for a second kernel, and for what apt fetches
_PART_FOR_TABLES = 20  # inodes, journal, bitmaps: a twentieth
# What mke2fs would leave out as holes is written as zeros: a card may hold anything there, and a block map leaves holes
# out (mke2fs(8), unix_io.c of e2fsprogs).
_MKE2FS = {"UNIX_IO_NOZEROOUT": "1"}
# Newer than GRUB or an older e2fsprogs may know.
_NOT_YET = "^metadata_csum_seed,^orphan_file"


def make(spec: Spec, root_tar: Path, target: Path, runner: Runner) -> None:
    """The disk and its manifest in the folder ``target``; raises CommandError (71)."""
    target.mkdir()
    with new_folder(target) as root:
        unpack(root_tar, root, runner)
        (target / MANIFEST).write_text(manifest(root))
        boot = root.parent / "boot"
        (root / FIRMWARE).rename(boot)
        (root / FIRMWARE).mkdir()
        insist_on_room(root, spec.board.slot_bytes)
        Disk(spec, target / DISK, runner).make(root, boot)


@dataclass(frozen=True)
class Disk:
    """The disk of ``spec`` in the file ``path``."""

    spec: Spec
    path: Path
    runner: Runner

    def make(self, root: Path, boot: Path) -> None:
        with self.path.open("wb") as file:
            file.truncate(self.spec.layout.size)
        self._partition()
        self._make_boot(boot)
        places = self.spec.layout.places
        self._make_ext4(kept(root), places["data"], DATA_LABEL)
        self._make_ext4(root, places["root-a"], ROOT_LABEL)
        if bios := places.get("bios"):
            self._make_bootable(root / GRUB, bios)

    def _partition(self) -> None:
        script = self.path.with_name("table")
        script.write_text(self.spec.layout.script())
        self.runner.run(["sh", "-c", 'exec sfdisk --quiet "$0" <"$1"', str(self.path), str(script)])
        script.unlink()

    def _make_boot(self, folder: Path) -> None:
        place = self.spec.layout.places["boot"]
        needed = sum(path.stat().st_size for path in folder.rglob("*"))
        if needed > place.size * 0.9:
            raise CommandError(Exit.SYSTEM, f"the boot partition has {place.size} bytes, its files take {needed}")
        # --invariant: no time of this machine's; it comes with a number of its own, which the next option replaces.
        kind = ["--invariant", "-F", "32", "-s", str(cluster(place.size)), "-i", f"{self.spec.layout.volume:08x}"]
        where = [f"--offset={place.start // SECTOR}", str(self.path), str(place.size // 1024)]
        self.runner.run(["mkfs.vfat", *kind, "-n", LABEL, *where])
        files = [str(path) for path in sorted(folder.iterdir())]
        # -m: with their times, of which FAT keeps local ones.
        self.runner.run(["mcopy", "-s", "-m", "-i", f"{self.path}@@{place.start}", *files, "::/"], {"TZ": "UTC"})

    def _make_ext4(self, folder: Path, place: Partition, label: str) -> None:
        number, seconds = str(place.filesystem), str(self.spec.seconds)
        extended = f"offset={place.start},hash_seed={number},lazy_itable_init=0,nodiscard"
        kind = ["-q", "-F", "-t", "ext4", "-b", str(_BLOCK), "-m", "1", "-L", label, "-U", number]
        command = ["mkfs.ext4", *kind, "-O", _NOT_YET, "-E", extended, "-d", str(folder), str(self.path)]
        times = {"SOURCE_DATE_EPOCH": seconds, "E2FSPROGS_FAKE_TIME": seconds}
        self.runner.run([*command, f"{place.size // 1024}k"], {**_MKE2FS, **times})

    def _make_bootable(self, folder: Path, bios: Partition) -> None:
        first = bios.start // SECTOR
        core = grub.core((folder / "core.img").read_bytes(), first, bios.size)
        with self.path.open("r+b") as file:
            file.write(grub.boot_code((folder / "boot.img").read_bytes(), first))
            file.seek(bios.start)
            file.write(core)


def cluster(size: int) -> int:
    """Sectors of a FAT32's cluster: Microsoft's own choice, by which a small one has enough to be one.

    mkfs.fat chooses by the size of the whole disk. Source: Microsoft's FAT32 File System Specification 1.03.
    """
    return 1 if size <= 260 * MIB else 8


def insist_on_room(root: Path, slot: int) -> None:
    """Raise CommandError (71) if what is in ``root``, and what must be free, takes more than the ``slot`` bytes."""
    blocks = sum(-(-os.lstat(path).st_size // _BLOCK) for path in root.rglob("*"))
    needed = blocks * _BLOCK + _FREE
    size = needed + needed // _PART_FOR_TABLES
    if size > slot:
        raise CommandError(Exit.SYSTEM, f"the system takes {size} bytes with what must be free, a slot has {slot}")


def kept(root: Path) -> Path:
    """A folder beside ``root`` with what both slots share, which the root loses: mount points stay in its place."""
    data = root.parent / "data"
    for name in slots.KEPT:
        there = root / name
        there.mkdir(parents=True, exist_ok=True)
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copymode(there.parent, (data / name).parent)
        there.rename(data / name)
        there.mkdir()
    return data


def manifest(root: Path) -> str:
    """What is in a root: packages with their versions, and the paths of all files, each in order."""
    versions = lock.installed((root / "var/lib/dpkg/status").read_text())
    packages = [f"package {name} {version}\n" for name, version in sorted(versions.items())]
    files = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return "".join((*packages, *sorted(f"file /{path.relative_to(root)}\n" for path in files)))
