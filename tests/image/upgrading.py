"""What tests of upgrades share: bundles on a disk of their own, and which slot a machine says that it started."""

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from image import partitions
from image.make import bundle
from image.make.bundle import Signing
from image.make.command import Runner
from image.make.lock import installed
from image.progress import Progress
from tests.image.machine import Medium

TOOLS = ("rauc", "mksquashfs", "openssl", "debugfs", "mkfs.ext4")


def signing(folder: Path, name: str) -> Signing:
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9000", "-subj", f"/CN={name}"]
    subprocess.run([*making, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return Signing(certificate, str(key))


def change(image: Path, place: partitions.Partition, request: str) -> None:
    """Change the ext4 at ``place`` of ``image`` by debugfs(8), which says what is wrong and ends with 0."""
    command = ["debugfs", "-w", "-R", request, f"{image}?offset={place.start}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) == 1, done.stderr  # its version


def read(image: Path, place: partitions.Partition, path: str) -> str:
    """The file ``path`` of the ext4 at ``place`` of ``image``."""
    command = ["debugfs", "-R", f"cat {path}", f"{image}?offset={place.start}"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def disk_of(bundles: Path) -> Path:
    """A disk with what is in the folder, beside it."""
    made = bundles.with_suffix(".img")
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "bundles", "-d", bundles, made, "1600M"], check=True)
    return made


@dataclass(frozen=True)
class Bundles:
    """Bundles of a disk's first root, which comes to trust ``ours``, in a folder beside it."""

    medium: Medium
    compatible: str
    ours: Signing

    @classmethod
    def trusted(cls, medium: Medium, compatible: str) -> "Bundles":
        made = cls(medium, compatible, signing(medium.path.parent, "ours"))
        change(medium.path, medium.roots[0], f"write {made.ours.certificate} /etc/rauc/keyring.pem")
        made.folder.mkdir()
        return made

    @property
    def folder(self) -> Path:
        return self.medium.path.parent / "bundles"

    @cached_property
    def version(self) -> str:
        """Of the system in that root: no other may be in a bundle's manifest."""
        database = read(self.medium.path, self.medium.roots[0], "/var/lib/dpkg/status")
        return installed(database)["tributary-image"]

    def make(self, name: str, by: Signing | None = None, compatible: str = "", version: str = "") -> None:
        self._make(self.medium.path, self.medium.roots[0].size, name, (compatible, version), by or self.ours)

    def refuse(self, name: str, by: Signing | None = None, compatible: str = "", version: str = "") -> None:
        """With a part of the root: nobody looks at it."""
        self._make(self.medium.path, 8 << 20, f"refused-{name}", (compatible, version), by or self.ours)

    def break_(self) -> None:
        """One whose converter is missing."""
        plain = self.medium.path.with_name("broken.img")
        subprocess.run(["cp", "--sparse=always", self.medium.path, plain], check=True)
        change(plain, self.medium.roots[0], "rm /usr/bin/tributary-converter")
        self._make(plain, self.medium.roots[0].size, "broken", ("", ""), self.ours)
        plain.unlink()

    def _make(self, image: Path, size: int, name: str, told: tuple[str, str], by: Signing) -> None:
        text = bundle.manifest(told[0] or self.compatible, told[1] or self.version)
        target = self.folder / f"{name}{bundle.ENDING}"
        bundle.make(image, self.medium.roots[0].start, size, text, by, target, self._runner)

    @property
    def _runner(self) -> Runner:
        return Runner(self.folder.with_suffix(".log"), Progress())


def booted(medium: Medium, found: dict[str, Any]) -> str:
    """The slot that the kernel was told of; RAUC agrees."""
    names = {f"root=PARTUUID={place.name}": slot for place, slot in zip(medium.roots, "AB", strict=True)}
    (slot,) = (names[word] for word in found["command"].split() if word in names)
    assert f"rauc.slot={slot}" in found["command"].split()
    assert found["status"]["running"]["slot"] == slot
    return slot
