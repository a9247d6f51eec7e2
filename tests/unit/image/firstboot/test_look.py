"""What is seen of a machine: /sys and /dev in a folder, with an ext4 that mke2fs made."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from image.firstboot import code, look, superblock
from image.firstboot.actions import Owner
from image.firstboot.facts import GrowingPartition
from image.firstboot.interfaces import interfaces
from image.firstboot.memory import Memory
from image.firstboot.settings import Role
from tests.unit.image.firstboot.systems import UNITS, make_system
from tributary.settings.errors import CommandError

MIB = 1 << 20
needs_mke2fs = pytest.mark.skipif(shutil.which("mke2fs") is None, reason="needs mke2fs")


def make_disk(tmp_path: Path, disk_mib: int, parts: dict[int, tuple[int, int]]) -> tuple[Path, Path]:
    """/sys and /dev with the disk mmcblk0: by number, each partition's start and size in MiB."""
    sys, dev = tmp_path / "sys", tmp_path / "dev"
    disk = sys / "devices/mmc0/block/mmcblk0"
    for folder in (disk, sys / "class/block", sys / "dev/block", dev / "disk/by-partuuid"):
        folder.mkdir(parents=True)
    (disk / "size").write_text(f"{disk_mib * 2048}\n")
    for number, (start, size) in parts.items():
        name = f"mmcblk0p{number}"
        part = disk / name
        part.mkdir()
        for key, value in {"partition": number, "start": start * 2048, "size": size * 2048}.items():
            (part / key).write_text(f"{value}\n")
        (sys / "class/block" / name).symlink_to(part)
        (sys / f"dev/block/179:{number}").symlink_to(part)
        (dev / name).write_bytes(bytes(4096))
        (dev / f"disk/by-partuuid/1234abcd-0{number}").symlink_to(f"../../{name}")
    return sys, dev


def test_root_is_found_by_its_partuuid(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {1: (1, 256), 2: (257, 1000)})
    found = look.root_partition("console=tty1 root=PARTUUID=1234ABCD-02 ro", 0, sys, dev)
    assert found == GrowingPartition(
        str(dev / "mmcblk0"), 2, str(dev / "mmcblk0p2"), 1000 * MIB, (8000 - 1257) * MIB, filesystem=None
    )


def test_root_is_found_by_its_device_number_where_the_kernel_was_told_otherwise(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {1: (1, 256), 2: (257, 1000)})
    for cmdline in ("root=/dev/mmcblk0p2", "root=PARTUUID=00000000-02"):
        found = look.root_partition(cmdline, os.makedev(179, 2), sys, dev)
        assert found is not None
        assert found.number == 2


def test_there_is_room_only_up_to_the_next_partition(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {1: (1, 256), 2: (257, 1000), 3: (1300, 100), 4: (4000, 100)})
    found = look.root_partition("root=PARTUUID=1234abcd-02", 0, sys, dev)
    assert found is not None
    assert found.room == (1300 - 1257) * MIB


def test_what_two_roots_share_grows_in_their_place(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {2: (1, 256), 3: (257, 1000), 4: (1257, 1000), 5: (2257, 64)})
    cmdline = "root=PARTUUID=1234abcd-03"
    (dev / "tributary").mkdir()
    (dev / "tributary/data").symlink_to("../mmcblk0p5")
    found = look.growing(cmdline, 0, sys, dev)
    assert found is not None
    assert (found.number, found.device, found.room) == (5, str(dev / "mmcblk0p5"), (8000 - 2321) * MIB)
    (dev / "tributary/data").unlink()
    alone = look.growing(cmdline, 0, sys, dev)
    assert alone is not None
    assert (alone.number, alone.room) == (3, 0)


def test_a_root_that_is_on_no_partition_is_left_alone(tmp_path: Path) -> None:
    sys, dev = make_disk(tmp_path, 8000, {})
    assert look.root_partition("root=/dev/nfs", os.makedev(0, 50), sys, dev) is None


@needs_mke2fs
@pytest.mark.parametrize("options", [[], ["-O", "^64bit"], ["-b", "1024"]], ids=" ".join)
def test_the_size_of_an_ext4_is_what_mke2fs_made(tmp_path: Path, options: list[str]) -> None:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, path, "40M"], check=True)
    assert superblock.size(path.read_bytes()[: superblock.NEEDED]) == 40 * MIB


@pytest.mark.parametrize("data", [b"", bytes(1500), bytes(superblock.NEEDED), b"\xff" * superblock.NEEDED])
def test_what_is_no_ext4_has_no_size(data: bytes) -> None:
    assert superblock.size(data) is None


def make_interface(sys: Path, name: str, kind: int, *, device: bool, wireless: bool = False) -> None:
    folder = sys / "class/net" / name
    folder.mkdir(parents=True)
    (folder / "type").write_text(f"{kind}\n")
    for given, entry in ((device, "device"), (wireless, "phy80211")):
        if given:
            (folder / entry).mkdir()


def test_facts_name_interfaces_account_and_units(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    for name, kind, device, wireless in (
        ("lo", 772, False, False),
        ("br0", 1, False, False),
        ("end0", 1, True, False),
        ("wlan0", 1, True, True),
        ("wwan0", 65534, True, False),
    ):
        make_interface(sys, name, kind, device=device, wireless=wireless)
    found = look.facts(make_system(tmp_path / "root"), Role.ROUTER, Memory("x", ("/etc/a",), ("b@c.service",)), sys)
    assert (found.wired, found.wireless) == (("end0",), ("wlan0",))
    assert (found.home, found.owner) == ("/home/tributary", Owner(os.getuid(), os.getgid()))
    assert found.units == frozenset(UNITS)
    assert (found.role, found.owned_files, found.owned_units) == (Role.ROUTER, ("/etc/a",), ("b@c.service",))


@pytest.mark.parametrize(
    ("bus", "described", "built_in"),
    [
        ("platform", "", True),
        ("pci", "", True),
        ("usb", "", False),
        ("usb", "1-1.1", True),
        ("usb", "1-1.1/1-1.1:1.0", True),
    ],
    ids=["a Pi 4's", "a PC's", "an adapter", "a Pi 3's, its device", "a Pi 3's, its interface"],
)
def test_a_port_on_the_board_is_told_from_an_adapter(tmp_path: Path, bus: str, described: str, built_in: bool) -> None:
    sys, device = tmp_path / "sys", tmp_path / "sys/devices/1-1.1/1-1.1:1.0"
    make_interface(sys, "end0", 1, device=False)
    device.mkdir(parents=True)
    (sys / "bus" / bus).mkdir(parents=True)
    (device / "subsystem").symlink_to(sys / "bus" / bus)
    (sys / "class/net/end0/device").symlink_to(device)
    if described:
        (sys / "devices" / described / "of_node").mkdir()
    assert [each.built_in for each in interfaces(sys)] == [built_in]
    assert look.assumed(Role.ROUTER, sys).built_in == (("end0",) if built_in else ())


def test_a_code_that_was_made_stays(tmp_path: Path) -> None:
    root = make_system(tmp_path)
    first, second = (look.facts(root, Role.ROUTER, Memory()).code for _ in range(2))
    assert first != second and len(first) == len(second) == 8
    (root / code.PLACE).parent.mkdir(parents=True)
    (root / code.PLACE).write_text(f"{first}\n")
    assert look.facts(root, Role.ROUTER, Memory()).code == first


def test_a_code_fits_however_it_is_typed() -> None:
    assert code.shown("abcdefgh") == "abcd-efgh"
    for given in ("abcd-efgh", "ABCDEFGH", " ab cd-ef gh ", "abcdefgh"):
        assert code.fits(given, "abcdefgh")
    for given in ("", "abcdefg", "abcdefghj", "abcdefg\u00e9"):
        assert not code.fits(given, "abcdefgh")
    assert not code.fits("", "")


def test_an_image_without_the_user_is_named(tmp_path: Path) -> None:
    root = make_system(tmp_path)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(CommandError, match="has no user tributary"):
        look.facts(root, Role.ROUTER, Memory())


def test_the_image_s_role_is_a_gateway_s_unless_it_says_so(tmp_path: Path) -> None:
    assert look.image_role(tmp_path) is Role.GATEWAY
    file = tmp_path / look.ROLE
    file.parent.mkdir(parents=True)
    file.write_text("router\n")
    assert look.image_role(tmp_path) is Role.ROUTER
    file.write_text("converter\n")
    with pytest.raises(CommandError, match="accepted: gateway or router"):
        look.image_role(tmp_path)
