"""What every boot looks after: /sys and /dev in a folder, with an ext4 that mke2fs made."""

import shutil
import subprocess
from pathlib import Path

import pytest

from image.firstboot.actions import GrowPartition, MakeHostKeys
from image.firstboot.apply import System, keep_up
from image.firstboot.upkeep import SUPERBLOCK, GrowingPartition, due, ext4_size, partition, upkeep

MIB = 1 << 20


def make_disk(tmp_path: Path, disk_mib: int, parts: dict[int, tuple[int, int]]) -> tuple[Path, Path]:
    """/sys and /dev with the disk mmcblk0: by number, each partition's start and size in MiB."""
    sys, dev = tmp_path / "sys", tmp_path / "dev"
    disk = sys / "devices/mmc0/block/mmcblk0"
    for folder in (disk, sys / "class/block", dev / "tributary"):
        folder.mkdir(parents=True)
    (disk / "size").write_text(f"{disk_mib * 2048}\n")
    for number, (start, size) in parts.items():
        name = f"mmcblk0p{number}"
        part = disk / name
        part.mkdir()
        for key, value in {"partition": number, "start": start * 2048, "size": size * 2048}.items():
            (part / key).write_text(f"{value}\n")
        (sys / "class/block" / name).symlink_to(part)
        (dev / name).write_bytes(bytes(4096))
    return sys, dev


def test_there_is_room_up_to_the_disks_end_or_the_next_partition(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {1: (1, 256), 2: (257, 1000), 3: (1300, 100), 4: (4000, 100)})
    assert partition(sys / "class/block/mmcblk0p2", dev).room == (1300 - 1257) * MIB
    assert partition(sys / "class/block/mmcblk0p4", dev) == GrowingPartition(
        str(dev / "mmcblk0"), 4, str(dev / "mmcblk0p4"), 100 * MIB, (8000 - 4100) * MIB, filesystem=None
    )


def test_what_two_roots_share_grows_and_nothing_else(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {2: (1, 256), 3: (257, 1000), 4: (1257, 1000), 5: (2257, 64)})
    (tmp_path / "etc/ssh").mkdir(parents=True)
    (tmp_path / "etc/ssh/ssh_host_ed25519_key").write_text("a key\n")
    assert due(tmp_path, sys, dev) == ()
    (dev / "tributary/data").symlink_to("../mmcblk0p5")
    assert [str(action) for action in due(tmp_path, sys, dev)] == [f"grow partition 5 of {dev / 'mmcblk0'}"]


def test_a_partition_that_cannot_be_read_keeps_nothing_from_being_looked_after(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {5: (2257, 64)})
    (dev / "tributary/data").symlink_to("../mmcblk0p5")
    # In place of an error of the medium: it cannot be read either.
    (dev / "mmcblk0p5").unlink()
    (dev / "mmcblk0p5").mkdir()
    wanted = [MakeHostKeys(), GrowPartition(str(dev / "mmcblk0"), 5)]
    assert list(due(tmp_path, sys, dev)) == wanted


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_host_keys_that_a_power_cut_left_empty_are_made_anew(tmp_path: Path) -> None:
    (folder := tmp_path / "etc/ssh").mkdir(parents=True)
    assert due(tmp_path, dev=tmp_path) == (MakeHostKeys(),)
    (folder / "ssh_host_rsa_key").touch()
    (folder / "ssh_host_ed25519_key").write_text("a key\n")
    (made,) = due(tmp_path, dev=tmp_path)
    keep_up(made, System.at(tmp_path))
    assert due(tmp_path, dev=tmp_path) == ()
    assert (folder / "ssh_host_ed25519_key").read_text() == "a key\n"


@pytest.mark.skipif(shutil.which("mke2fs") is None, reason="needs mke2fs")
@pytest.mark.parametrize("options", [[], ["-O", "^64bit"], ["-b", "1024"]], ids=" ".join)
def test_the_size_of_an_ext4_is_what_mke2fs_made(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, path, "40M"], check=True)
    assert ext4_size(path.read_bytes()[:SUPERBLOCK]) == 40 * MIB


@pytest.mark.parametrize("data", [b"", bytes(1500), bytes(SUPERBLOCK), b"\xff" * SUPERBLOCK])
def test_what_is_no_ext4_has_no_size(data: bytes) -> None:
    assert ext4_size(data) is None


GROW, FILL = "grow partition 3 of /dev/vda", "grow the file system on /dev/vda3"


def data(size: int, room: int, filesystem: int | None) -> GrowingPartition:
    return GrowingPartition("/dev/vda", 3, "/dev/vda3", size, room, filesystem)


@pytest.mark.parametrize(
    ("growing", "has_host_keys", "wanted"),
    [
        (data(900 * MIB, 9000 * MIB, 900 * MIB), True, [GROW, FILL]),
        (data(9900 * MIB, MIB, 900 * MIB), True, [FILL]),
        (data(9900 * MIB, MIB, 9900 * MIB), True, []),
        (data(900 * MIB, 9000 * MIB, None), True, [GROW]),
        (None, False, ["make SSH host keys"]),
        (None, True, []),
    ],
)
def test_a_boot_looks_after_what_is_missing_and_nothing_else(
    growing: GrowingPartition | None, has_host_keys: bool, wanted: list[str]
) -> None:
    assert [str(action) for action in upkeep(growing, has_host_keys=has_host_keys)] == wanted
