"""Bundles that RAUC makes and reads: signed by the one who says so, and not by another."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from image.make import bundle
from image.make.boards import MIB
from image.make.bundle import Signing
from image.make.command import Runner
from image.progress import Progress
from tests.image.upgrading import signing
from tests.netns.world import needs
from tributary.settings.errors import CommandError, Exit

HALF = random.Random(18).randbytes(MIB)
pytestmark = needs("rauc", "mksquashfs", "openssl")


def made(folder: Path, by: Signing) -> Path:
    """Of the second half of a disk of 2 MiB, which cannot be packed into less than RAUC takes."""
    disk = folder / "disk"
    disk.write_bytes(bytes(MIB) + HALF)
    target = folder / f"one{bundle.ENDING}"
    text = bundle.manifest("tributary-router-x86", "0.2.0-1~deb13")
    bundle.make(disk, MIB, MIB, text, by, target, Runner(folder / "log", Progress()))
    return target


def info(path: Path, trusted: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = ["rauc", f"--keyring={trusted}", "info", "--output-format=json", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_bundle_has_the_part_of_the_disk_that_it_is_for(tmp_path: Path) -> None:
    ours = signing(tmp_path, "ours")
    path = made(tmp_path, ours)
    found = json.loads(info(path, ours.certificate).stdout)
    assert (found["compatible"], found["version"]) == ("tributary-router-x86", "0.2.0-1~deb13")
    unpacked = subprocess.run(["unsquashfs", "-cat", path, "root.ext4"], capture_output=True, check=True).stdout
    assert unpacked == HALF
    assert [each.name for each in tmp_path.glob("one.*")] == ["one.raucb"]


def test_who_trusts_others_does_not_accept_it(tmp_path: Path) -> None:
    refused = info(made(tmp_path, signing(tmp_path, "ours")), signing(tmp_path, "others").certificate)
    assert refused.returncode != 0
    assert "signature verification failed" in refused.stderr


def test_who_trusts_both_accepts_it(tmp_path: Path) -> None:
    ours, others = signing(tmp_path, "ours"), signing(tmp_path, "others")
    both = tmp_path / "both.pem"
    both.write_text(ours.certificate.read_text() + others.certificate.read_text())
    path = made(tmp_path, Signing(both, ours.key))
    for trusted in (ours.certificate, both):
        assert info(path, trusted).returncode == 0


def test_a_key_of_another_certificate_makes_none(tmp_path: Path) -> None:
    ours, others = signing(tmp_path, "ours"), signing(tmp_path, "others")
    with pytest.raises(CommandError, match="rauc"):
        made(tmp_path, Signing(ours.certificate, others.key))


def test_certificates_are_looked_at_before_anything_is_built(tmp_path: Path) -> None:
    ours = signing(tmp_path, "ours")
    assert bundle.certificate(ours.certificate) == ours.certificate.read_text()
    with pytest.raises(CommandError, match="accepted: certificates in PEM, and no key") as refused:
        bundle.certificate(Path(ours.key))
    assert refused.value.code == Exit.USAGE
    with pytest.raises(CommandError, match="cannot be read"):
        bundle.certificate(tmp_path / "none.pem")
