"""Disks in miniature, made by the real tools, and read by others."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from image.check.findings import Ext4
from image.flash.source import BLOCK, Range, block_map
from image.make import disk, pack
from image.make.boards import MIB, Role
from image.make.command import Runner
from image.progress import Progress
from tests.unit.image.miniature import SECONDS, made, needs_tools, root_folder, small
from tributary.settings.errors import CommandError

pytestmark = needs_tools


@pytest.fixture(scope="module", params=["x86", "rpi"])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk", numbered=True)
    board: str = request.param
    return made(root_folder(folder, board, Role.GATEWAY), board).rename(folder / f"{board}.img")


def mapped(image: Path) -> tuple[Range, ...]:
    """What of it the block map that people download says."""
    bmap = image.with_suffix(".bmap")
    subprocess.run(["bmaptool", "create", "--output", bmap, image], check=True, capture_output=True)
    size, ranges = block_map(bmap.read_bytes())
    assert size == image.stat().st_size
    return ranges


def blocks(image: Path) -> set[int]:
    return {block for each in mapped(image) for block in range(each.start // BLOCK, each.end // BLOCK)}


def root_of(image: Path) -> int:
    return small(image.stem).layout.places["root-a"].start


def superblock(image: Path) -> str:
    command = ["dumpe2fs", f"{image}?offset={root_of(image)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def used_blocks(shown: str) -> set[int]:
    """Blocks of the file system that its bitmaps say are in use."""
    count = int(re.search(r"^Block count:\s+(\d+)$", shown, re.MULTILINE)[1])  # type: ignore[index]
    free = set()
    for line in re.findall(r"^  Free blocks: (.*)$", shown, re.MULTILINE):
        for span in filter(None, line.split(", ")):
            first, _, last = span.partition("-")
            free |= set(range(int(first), int(last or first) + 1))
    return set(range(count)) - free


def test_each_block_that_the_root_uses_is_in_the_map(image: Path) -> None:
    first = root_of(image) // BLOCK
    used = {first + block for block in used_blocks(superblock(image))}
    assert len(used) > 500  # the journal alone has a thousand
    assert used <= blocks(image)


def test_each_sector_of_the_boot_partition_that_holds_something_is_in_the_map(image: Path) -> None:
    place = small(image.stem).layout.places["boot"]
    with image.open("rb") as file:
        file.seek(place.start)
        head = file.read(512)
        tables = int.from_bytes(head[14:16], "little") + head[16] * int.from_bytes(head[36:40], "little")
    first = place.start // BLOCK
    assert set(range(first, first + tables * 512 // BLOCK)) <= blocks(image)


def test_written_over_something_else_by_its_map_the_root_is_whole(image: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.img"
    card.write_bytes(os.urandom(MIB) * (image.stat().st_size // MIB))
    with image.open("rb") as source, card.open("r+b") as target:
        for each in mapped(image):
            for file in (source, target):
                file.seek(each.start)
            target.write(source.read(each.end - each.start))
    root = tmp_path / "root.img"
    with card.open("rb") as source:
        source.seek(root_of(image))
        root.write_bytes(source.read(24 * MIB))
    checked = subprocess.run(["e2fsck", "-fn", root], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_file_systems_have_the_images_numbers_and_the_commits_time(image: Path) -> None:
    shown, found = superblock(image), small(image.stem).layout
    assert f"Filesystem UUID:          {found.places['root-a'].filesystem}" in shown
    assert "Filesystem volume name:   tributary-root" in shown
    assert re.search(r"^Filesystem created:\s+Sat Nov 21 .* 2026$", shown, re.MULTILINE)
    with image.open("rb") as file:
        file.seek(found.places["boot"].start)
        head = file.read(512)
    assert (int.from_bytes(head[67:71], "little"), head[71:82]) == (found.volume, b"TRIBUTARY  ")


def test_grub_reads_a_file_system_without_what_is_too_new_for_it(image: Path) -> None:
    features = re.search(r"^Filesystem features:(.*)$", superblock(image), re.MULTILINE)
    assert features is not None
    assert not {"metadata_csum_seed", "orphan_file"} & set(features[1].split())


def test_the_manifest_has_packages_and_files(tmp_path: Path) -> None:
    lines = disk.manifest(root_folder(tmp_path, "rpi", Role.ROUTER)).splitlines()
    assert lines[0] == "package bash 5.2-1"
    assert lines[1:] == sorted(lines[1:])
    assert {"file /etc/resolv.conf", "file /boot/firmware/start4.elf"} <= set(lines)


def test_a_root_that_leaves_a_slot_too_little_room_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(10 * MIB))
    disk.insist_on_room(tmp_path, 500 * MIB)
    with pytest.raises(CommandError, match=f"with what must be free, a slot has {400 * MIB}"):
        disk.insist_on_room(tmp_path, 400 * MIB)


def test_what_both_slots_share_is_on_the_data_partition_alone(image: Path) -> None:
    places = small(image.stem).layout.places
    root, data = (Ext4(image, places[link].start) for link in ("root-a", "data"))
    assert data.read("/var/lib/tributary/squid/kept") == b"shared"
    assert root.names("/var/lib/tributary/squid") == frozenset()
    with image.open("rb") as file:
        file.seek(places["root-b"].start)
        assert not any(file.read(places["root-b"].size))  # an upgrade writes all of it


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd")
def test_what_people_download_is_whole(image: Path, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    shutil.copy(image, folder / disk.DISK)
    (folder / disk.MANIFEST).write_text("package bash 5\n")
    packed = pack.make(folder, "x", tmp_path / "files", Runner(tmp_path / "log", Progress()))
    placed = pack.deliver(tmp_path / "files", "x", tmp_path / "output", {"x.txt": "x"})
    assert [path.name for path in placed] == ["x.txt", "x.img.bmap", "x.manifest", "x.img.zst.sha256", "x.img.zst"]
    subprocess.run(["sha256sum", "--check", "--quiet", "x.img.zst.sha256"], cwd=tmp_path / "output", check=True)
    unpacked = subprocess.run(["zstd", "-dc", placed[-1]], capture_output=True, check=True).stdout
    assert unpacked == image.read_bytes()
    assert (packed.disk_bytes, packed.disk_sha256) == (len(unpacked), hashlib.sha256(unpacked).hexdigest())
    assert packed.bytes == placed[-1].stat().st_size
    assert packed.sha256 == hashlib.sha256(placed[-1].read_bytes()).hexdigest()


def test_the_same_root_gives_the_same_boot_partition(tmp_path: Path) -> None:
    def boot(folder: Path) -> Iterator[bytes]:
        folder.mkdir()
        root = root_folder(folder, "rpi", Role.GATEWAY)
        for path in root.rglob("*"):
            os.utime(path, (SECONDS, SECONDS), follow_symlinks=False)
        place = small("rpi").layout.places["boot"]
        with made(root, "rpi").open("rb") as file:
            file.seek(place.start)
            yield file.read(place.size)

    assert next(boot(tmp_path / "one")) == next(boot(tmp_path / "other"))
