"""flash-pi on real block devices: what it writes, and what it refuses without touching the disk."""

import errno
import hashlib
import os
import re
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from image.flash.source import BLOCK, CHUNK
from tests.devices.flashing import (
    DISK,
    HOLES,
    IMAGE,
    MAP,
    OLD,
    USELESS,
    claimed,
    events,
    expected,
    fill,
    flash_pi,
    started,
    written,
)
from tests.devices.loops import add_partition, loop, measure_again, where_mounted
from tests.unit.image.flash.made import files
from tributary.settings.errors import Exit


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The file behind ``device``."""
    return fill(tmp_path / "disk")


@pytest.fixture
def device(disk: Path) -> Iterator[Path]:
    with loop(disk) as path:
        yield path


def test_an_image_is_written_and_nothing_after_it_but_at_the_end(device: Path, disk: Path, image: Path) -> None:
    result = written(image, device)
    assert result.stdout.splitlines() == [
        f"{device}: unknown make, 16.8 MB, bus virtual",
        f"{image}: 12.3 MB, its checksum matches",
        f"{device} is written and read back: eject it, and take it out",
    ]
    assert disk.read_bytes() == expected()


MAPPED = "of which 8.70 MB are written"


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ({"packed": True, "bmap": MAP}, MAPPED),
        ({"packed": False, "bmap": MAP}, MAPPED),
        ({"checksum": False}, "no card.img.zst.sha256 beside it"),
    ],
    ids=["with a map", "with a map, unpacked", "without a checksum"],
)
def test_what_lies_beside_an_image_is_told_and_the_same_is_written(
    device: Path, disk: Path, tmp_path: Path, beside: dict[str, Any], told: str
) -> None:
    result = written(files(tmp_path, IMAGE, **beside), device)
    assert told in result.stdout
    assert disk.read_bytes() == expected(), "holes are cleared"


def test_what_an_earlier_system_left_where_the_image_has_a_hole_is_gone(
    device: Path, disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/router.toml").write_text('secret = "' + "AAEC" * 20 + '"')
    hole = HOLES[1]
    made = ["mkfs.ext4", "-q", "-F", "-d", str(tmp_path / "tree"), "-E", f"offset={hole.start * BLOCK}", str(device)]
    subprocess.run([*made, f"{len(hole) * BLOCK >> 10}k"], check=True, timeout=60)
    assert b"AAECAAEC" in disk.read_bytes()
    written(files(tmp_path, IMAGE, bmap=MAP), device)
    assert disk.read_bytes() == expected()


def test_a_disk_that_was_half_of_a_raid_is_none_any_more(device: Path, image: Path) -> None:
    with device.open("r+b") as file:
        file.seek(-(16 << 9), os.SEEK_END)
        file.write(raid_member(DISK))
    probe = ["blkid", "--probe", "--output", "value", "--match-tag", "TYPE", str(device)]
    assert subprocess.run(probe, capture_output=True, text=True, check=True).stdout == "linux_raid_member\n"
    written(image, device)
    assert subprocess.run(probe, capture_output=True, text=True, check=False).stdout == ""


def raid_member(size: int) -> bytes:
    """The superblock of RAID in version 1.0, which lies 8 KiB before the end (linux/raid/md_p.h)."""
    block = bytearray(260)
    struct.pack_into("<II", block, 0, 0xA92B4EFC, 1)
    struct.pack_into("<Q", block, 144, (size >> 9) - 16)
    struct.pack_into("<I", block, 220, 2)
    total = sum(struct.unpack("<65I", block))
    struct.pack_into("<I", block, 216, (total + (total >> 32)) & 0xFFFFFFFF)
    return bytes(block)


def test_a_disk_of_exactly_the_size_of_the_image_is_written(tmp_path: Path, image: Path) -> None:
    disk = fill(tmp_path / "small", len(IMAGE))
    with loop(disk) as device:
        written(image, device)
    assert disk.read_bytes() == IMAGE


def test_a_device_is_found_by_a_link(device: Path, disk: Path, image: Path, tmp_path: Path) -> None:
    (tmp_path / "by-id").symlink_to(device)
    written(image, tmp_path / "by-id")
    assert disk.read_bytes() == expected()


def test_a_program_reads_each_step_and_the_result(device: Path, image: Path) -> None:
    seen = events(flash_pi("--yes", "--force", "--json", image, device))
    facts = [event["event"] for event in seen if event["event"] not in ("begin", "progress", "end")]
    assert facts == ["disk", "image", "written"]
    for event in ("begin", "end"):
        steps = [each["step"] for each in seen if each["event"] == event]
        assert steps == ["check", "clear", "write", "read back"]


def test_the_kernel_forgets_the_old_partitions(device: Path, image: Path) -> None:
    old = add_partition(device, 2048, 8192)
    assert old.exists()
    seen = events(flash_pi("--yes", "--force", "--json", image, device))
    assert seen[-1]["partitions_read"]
    # What a kernel that reads such tables sees instead is the image's partition, at sector 8.
    start = Path(f"/sys/block/{device.name}/{old.name}/start")
    assert not start.exists() or start.read_text() == "8\n"


@pytest.mark.parametrize("name", ["short", "path"])
def test_the_name_of_the_disk_is_the_answer_that_writes(device: Path, disk: Path, image: Path, name: str) -> None:
    result = flash_pi("--force", image, device, answer=f"{device.name if name == 'short' else device}\n")
    assert result.returncode == 0, result.stderr
    assert f"All that is on {device} will be lost. Type {device.name} to go on: " in result.stderr
    assert disk.read_bytes() == expected()


@pytest.mark.parametrize("answer", ["", "\n", "yes\n", "loop99\n"])
def test_any_other_answer_writes_nothing(device: Path, disk: Path, image: Path, answer: str) -> None:
    result = flash_pi("--force", image, device, answer=answer)
    assert result.returncode == Exit.USAGE
    assert "nothing was written" in result.stderr
    assert disk.read_bytes() == OLD * DISK


def test_a_card_that_is_exchanged_while_it_asks_is_left_alone(device: Path, disk: Path, image: Path) -> None:
    with started("--force", image, device) as process:
        assert process.stdin and process.stdout and process.stderr
        assert [process.stdout.readline().split(":")[0] for _ in range(2)] == [str(device), str(image)]
        os.truncate(disk, DISK + BLOCK)
        measure_again(device)
        _, errors = process.communicate(f"{device.name}\n", timeout=60)
    assert process.returncode == Exit.IN_USE
    assert "another card was put in" in errors
    assert disk.read_bytes()[:DISK] == OLD * DISK


def test_a_dry_run_shows_all_and_writes_nothing(device: Path, disk: Path, image: Path) -> None:
    result = flash_pi("--dry-run", "--force", image, device)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"{device} can be written; nothing was"
    assert disk.read_bytes() == OLD * DISK


def test_a_card_that_is_what_the_image_says_is_verified(device: Path, image: Path) -> None:
    written(image, device)
    result = flash_pi("--verify-only", image, device)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"{device} is what card.img.zst says"


@pytest.mark.parametrize("offset", [0, BLOCK - 1, BLOCK, 5_000_000, len(IMAGE) - 1])
def test_one_flipped_bit_is_found_where_it_is(device: Path, disk: Path, image: Path, offset: int) -> None:
    written(image, device)
    flip(disk, offset)
    result = flash_pi("--verify-only", image, device)
    assert result.returncode == Exit.WRONG_RESULT
    first, last = map(int, re.findall(r"bytes (\d+) to (\d+) differ from the image", result.stderr)[0])
    assert first <= offset < last <= first + CHUNK
    assert USELESS not in result.stderr  # it was not written, and may well boot


def test_what_the_map_leaves_out_may_differ(device: Path, disk: Path, tmp_path: Path) -> None:
    image = files(tmp_path, IMAGE, bmap=MAP)
    written(image, device)
    flip(disk, 5 * BLOCK)
    assert flash_pi("--verify-only", image, device).returncode == 0


def flip(disk: Path, offset: int) -> None:
    with disk.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def refused(
    code: Exit, reason: str, disk: Path, *words: object, inside: Sequence[str] = (), but: slice = slice(0)
) -> None:
    """The command ends with ``code`` and one line, and the disk is what it was ``but`` where the kernel may write."""

    def digest() -> bytes:
        data = bytearray(disk.read_bytes())
        del data[but]
        return hashlib.sha256(data).digest()

    before = digest()
    result = flash_pi("--yes", *words, inside=inside)
    assert result.returncode == code, result.stderr
    lines = [line for line in result.stderr.splitlines() if "1/4 check" not in line and "1/1 check" not in line]
    assert len(lines) == 1
    assert reason in lines[0]
    assert digest() == before


def test_a_disk_that_is_built_in_is_refused_without_force(device: Path, disk: Path, image: Path) -> None:
    refused(Exit.USAGE, "not removable (bus virtual): --force", disk, image, device)


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path, image: Path) -> None:
    disk = fill(tmp_path / "small", len(IMAGE) - 512)
    with loop(disk) as device:
        refused(Exit.USAGE, "it has 12.3 MB, and the image needs 12.3 MB", disk, "--force", image, device)
        assert flash_pi("--verify-only", image, device).returncode == Exit.USAGE


def test_a_read_only_disk_is_refused(disk: Path, image: Path) -> None:
    with loop(disk, read_only=True) as device:
        refused(Exit.UNAVAILABLE, "it is read-only", disk, "--force", image, device)


def test_a_disk_with_large_sectors_is_refused(disk: Path, image: Path) -> None:
    with loop(disk, sector=4096) as device:
        refused(Exit.USAGE, "its sectors have 4096 bytes", disk, "--force", image, device)


@pytest.mark.parametrize(
    ("source", "target", "code", "reason"),
    [
        ("card.img.zst", "disk", Exit.USAGE, "not a block device"),
        ("card.img.zst", "sdx", Exit.UNAVAILABLE, "No such file or directory"),
        ("device", "device", Exit.NO_INPUT, "not a file"),
        ("none.img.zst", "device", Exit.NO_INPUT, "No such file"),
    ],
)
def test_what_is_no_image_or_no_disk_is_refused(
    disk: Path, device: Path, image: Path, source: str, target: str, code: Exit, reason: str
) -> None:
    (image.parent / "device").symlink_to(device)
    refused(code, reason, disk, "--force", image.parent / source, image.parent / target)


def test_a_partition_is_refused_and_its_disk_named(disk: Path, device: Path, image: Path) -> None:
    partition = add_partition(device, 2048, 8192)
    refused(Exit.USAGE, f"a partition, and not a whole disk: accepted: {device}", disk, "--force", image, partition)


def test_a_disk_with_a_mounted_partition_is_refused(disk: Path, device: Path, image: Path, tmp_path: Path) -> None:
    partition, point = add_partition(device, 2048, 16384), tmp_path / "my card"
    subprocess.run(["mkfs.ext4", "-q", partition], check=True, timeout=60)
    reason = f"it is mounted ({partition} at {point}): `umount"
    inside = where_mounted(partition, point)
    refused(Exit.IN_USE, reason, disk, "--force", image, device, inside=inside)


def test_a_disk_that_is_mounted_whole_is_refused(disk: Path, device: Path, image: Path, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", device], check=True, timeout=60)
    inside = where_mounted(device, tmp_path / "card")
    refused(Exit.IN_USE, "it is mounted", disk, "--force", image, device, inside=inside)


def test_a_disk_that_is_swap_is_refused(disk: Path, device: Path, image: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    smallest = 10 * page  # for mkswap(8); the kernel may put pages there, but never on the first one
    subprocess.run(["mkswap", "-q", device, str(smallest >> 10)], check=True, timeout=60, stdout=subprocess.DEVNULL)
    # Of all swap it is the last that the kernel would take.
    subprocess.run(["swapon", "--priority", "0", device], check=True, timeout=60)
    try:
        reason = f"`swapoff {device}` first"
        refused(Exit.IN_USE, reason, disk, "--force", image, device, but=slice(page, smallest))
    finally:
        subprocess.run(["swapoff", device], check=True, timeout=60)


@pytest.mark.parametrize("option", ["--force", "--dry-run"])
def test_a_disk_that_another_program_claims_is_refused_and_the_program_named(
    disk: Path, device: Path, image: Path, option: str
) -> None:
    descriptor = claimed(device)
    try:
        refused(Exit.IN_USE, f"(process {os.getpid()})", disk, "--force", option, image, device)
    finally:
        os.close(descriptor)


def test_a_mount_that_this_namespace_does_not_show_is_found_as_well(
    disk: Path, device: Path, image: Path, tmp_path: Path
) -> None:
    subprocess.run(["mkfs.ext4", "-q", device], check=True, timeout=60)
    command = [*where_mounted(device, tmp_path / "card"), "sh", "-c", "echo there && read _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"there\n"
        refused(Exit.IN_USE, "in use by", disk, "--force", image, device)
        other.communicate(b"\n")


def test_the_disk_that_this_system_runs_from_is_refused(image: Path) -> None:
    number = Path("/").stat().st_dev
    if os.major(number) == 0:
        pytest.skip("needs a system that runs from a disk of its own")
    folder = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    whole = folder.parent if (folder / "partition").exists() else folder
    result = flash_pi("--dry-run", "--force", image, f"/dev/{whole.name}")  # a dry run, lest this test find a mistake
    assert result.returncode == Exit.USAGE
    assert "the system runs from it" in result.stderr


def test_a_damaged_image_touches_nothing(disk: Path, device: Path, image: Path) -> None:
    flip(image, image.stat().st_size // 2)
    refused(Exit.NO_INPUT, "its checksum does not match", disk, "--force", image, device)


def test_while_it_asks_nobody_else_can_claim_the_disk(device: Path, image: Path) -> None:
    with started("--force", image, device) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(OSError) as refusal:
            claimed(device)
        assert refusal.value.errno == errno.EBUSY
